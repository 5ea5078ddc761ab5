"""Token ids around `generate`: torch's in the source, NumPy's in the port, and the methods that only torch's have.

inputs = tokenizer(prompts, return_tensors="pt").to("cuda")   →   inputs = tokenizer(prompts, return_tensors="np")
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import libcst as cst

from ...source.calls import argument_of, calls_of, returned
from ...source.scopes import Binding, Scope
from ..script.following.reaching import reaching
from ..script.porting import Porting
from ..script.sites import shortened

# Methods that move a tensor or change its type, and give the same numbers.
MOVES = frozenset("to cuda cpu contiguous detach long int clone numpy".split())
# Attributes that a tensor has and an array hasn't.
TORCH_ONLY = frozenset(
    "view size expand device new_tensor masked_fill index_select gather permute scatter ne eq lt gt le ge topk t "
    "masked_select repeat_interleave unique split chunk flip roll narrow type_as expand_as new_zeros new_ones new_full "
    "is_cuda requires_grad tile unbind type index_fill logical_not logical_and logical_or".split()
)
# Methods that an array has, too, and that do something else there.
OTHERWISE = frozenset("repeat transpose sort nonzero std var".split())
# Methods that give an array in both, along `dim` in torch and `axis` in NumPy; of an axis these give two tensors.
REDUCES = frozenset("sum mean prod cumsum argmax argmin any all max min squeeze".split())
PAIRED = frozenset({"max", "min"})
AXES = {"dim": "axis", "keepdim": "keepdims"}
SHAPED = frozenset("view reshape unsqueeze flatten".split())  # give the same numbers in another shape
NEW_AXES = {"0": "[None]", "1": "[:, None]", "-1": "[..., None]"}
TYPES = {
    "bool": "bool", "float": "float32", "float32": "float32", "double": "float64", "float64": "float64",
    "half": "float16", "float16": "float16",
}  # fmt: skip
HELD = frozenset("input_ids attention_mask data".split())  # what a tokenizer's answer has
ALIKE = frozenset("ones_like zeros_like full_like where argmax argmin".split())  # in torch and in NumPy
TAKES_ARRAYS = frozenset("tensor as_tensor from_numpy is_tensor Tensor LongTensor IntTensor".split())
DEEPEST = 12
REASON = "token ids are NumPy's"
IDS_ASKED = "calls that say that they give token ids"  # of `Porting.answers`


# Methods of tensors that an array has by another name; a copy that goes would be changed with what it was made of.
SPELLED = {
    "clone": ".copy()",
    "long": '.astype("int64")',
    "int": '.astype("int32")',
    "bool": '.astype("bool")',
    "float": '.astype("float32")',
    "dim": ".ndim",
    "numel": ".size",
    "double": '.astype("float64")',
    "half": '.astype("float16")',
}
OF_GENERATION = {name: code for name, code in SPELLED.items() if name not in MOVES}  # token ids are whole numbers


def settle_inputs(porting: Porting, node: cst.BaseExpression, rule: str, *, ids: bool) -> Sequence[cst.Call]:
    """An expression whose token ids go into `generate`: from the tokenizer on they are NumPy's.

    `ids`: it is given as the token ids themselves, which a chat template gives unless it is asked for a dictionary:
    the calls of such templates that don't say which.
    """
    follower = _Follower(porting, rule, OF_GENERATION)
    follower.back(node, 0, ids)
    return follower.unsaid


def settle_call(porting: Porting, call: cst.Call, rule: str, *, ids: bool) -> None:
    """A tokenizer's call gives NumPy's arrays, and what is done with them is what arrays can do.

    `ids`: a chat template's answer is the token ids themselves.
    """
    follower = _Follower(porting, rule, SPELLED)
    follower.asks(call, ids)
    follower.onwards(call)


def settle_outputs(porting: Porting, call: cst.Call, rule: str) -> None:
    """What is done with the token ids that a call gives: what only torch's tensors have goes or is named."""
    follower = _Follower(porting, rule, OF_GENERATION)
    follower.onwards(call)


def settle_places(porting: Porting, node: cst.BaseExpression, rule: str) -> None:
    """An expression whose tensors a call takes from the host: they stay torch's, and are moved to no device."""
    _OnHost(porting, rule).back(node, 0, False)


class _Follower:
    """Follows token ids through names; each binding once. `spelled`: methods that are written in another way."""

    def __init__(self, porting: Porting, rule: str, spelled: Mapping[str, str] = MappingProxyType({})) -> None:
        self._porting, self._rule, self._spelled = porting, rule, spelled
        self._seen: list[Binding] = []
        self.unsaid: list[cst.Call] = []  # templates that are to give token ids, and don't say what they give

    def back(self, node: cst.BaseExpression, depth: int, ids: bool) -> None:
        """From where token ids are used to the call that makes them."""
        module = self._porting.module
        if depth > DEEPEST:
            return
        if isinstance(node, cst.Name):
            found = module.meaning(node)
            if found is not None:
                self._name(node.value, found[0], reaching(module, node), depth, ids)
        elif isinstance(node, cst.Subscript | cst.Attribute):
            self.back(node.value, depth + 1, False)
        elif isinstance(node, cst.Dict):
            for element in node.elements:
                self.back(element.value, depth + 1, True)
        elif isinstance(node, cst.DictComp):
            self._moves_items(node)
            self.back(node.for_in.iter, depth + 1, False)
        elif isinstance(node, cst.Call):
            self._call(node, depth, ids)

    def _call(self, node: cst.Call, depth: int, ids: bool) -> None:
        module = self._porting.module
        if self.asks(node, ids):
            return
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in MOVES:
            if self._moves(node):
                self._strip(node)
            self.back(node.func.value, depth + 1, ids)
        elif isinstance(node.func, cst.Attribute) and node.func.attr.value == "items":
            self.back(node.func.value, depth + 1, False)
        elif isinstance(node.func, cst.Attribute) and node.func.attr.value in TORCH_ONLY | SHAPED:
            self.back(node.func.value, depth + 1, ids)
        elif (function := module.callees.get(node)) is not None and function.name.value != "__init__":
            for value in returned(module, function):
                self.back(value, depth + 1, ids)

    def asks(self, node: cst.Call, ids: bool) -> bool:
        """Whether a call says what it returns, which is NumPy's then."""
        module = self._porting.module
        tensors = next((a for a in node.args if a.keyword is not None and a.keyword.value == "return_tensors"), None)
        said = module.code(tensors.value) if tensors is not None else ""
        if tensors is not None and said.strip("\"'") == "pt":
            self._edit(*module.span(tensors.value), said.replace("pt", "np"))
            if ids and isinstance(node.func, cst.Attribute) and node.func.attr.value == "apply_chat_template":
                self._ask_for_ids(node, tensors)
        return tensors is not None

    def _ask_for_ids(self, node: cst.Call, tensors: cst.Arg) -> None:
        """transformers before 5 gave the token ids without being asked for them alone."""
        if not any(arg.keyword is not None and arg.keyword.value == "return_dict" for arg in node.args):
            reason = "transformers 5 gives more"
            self._porting.add_keyword(node, "return_dict=False", self._rule, reason, behind=tensors)
            self._porting.answers.setdefault(IDS_ASKED, set()).add(node)
            self.unsaid.append(node)

    def _name(self, name: str, scope: Scope, bindings: Sequence[Binding], depth: int, ids: bool) -> None:
        """What a variable is bound to, and all uses that get that; of what is bound to it besides none."""
        module = self._porting.module
        new = [binding for binding in bindings if binding not in self._seen]
        self._seen += new
        for binding in new:
            if binding.kind == "assign" and binding.value is not None:
                self.back(binding.value, depth + 1, ids)
            elif binding.kind == "parameter" and isinstance(binding.node, cst.Param):
                function = next((n for n in module.ancestors(binding.node) if isinstance(n, cst.FunctionDef)), None)
                for call in calls_of(module, function) if function is not None else ():
                    given = argument_of(module, call, name)
                    if given is not None:
                        self.back(given, depth + 1, ids)
        for use in module.references(name, scope) if new else ():
            if isinstance(use, cst.Name) and any(binding in new for binding in reaching(module, use)):
                self.onwards(use)

    def _moves(self, call: cst.Call) -> bool:
        """Whether a method of token ids changes nothing about NumPy's."""
        return isinstance(call.func, cst.Attribute) and call.func.attr.value in MOVES

    def _moves_items(self, node: cst.DictComp) -> None:
        """`batch = {k: v.to(device) for k, v in batch.items()}` goes; elsewhere the move alone."""
        module, moved = self._porting.module, node.value
        if not (isinstance(moved, cst.Call) and isinstance(moved.func, cst.Attribute)):
            return
        if not self._moves(moved) or self._porting.covered(module.span(node)[0]):
            return
        parent = module.parents[node]
        code = f"{{{module.code(node.key)}: {module.code(moved.func.value)} for {module.code(node.key)}, "
        target = module.code(parent.targets[0].target) if isinstance(parent, cst.Assign) else ""
        code += f"{module.code(moved.func.value)} in {target}.items()}}"
        kept = module.text[module.span(node)[0] : module.span(moved.func.value)[1]]
        kept += module.text[module.span(moved)[1] : module.span(node)[1]]
        if target and "".join(kept.split()) == "".join(code.split()):
            self._porting.remove_statement(node, self._rule, REASON)
        else:
            self._strip(moved)

    def onwards(self, node: cst.BaseExpression) -> None:
        """What is done with token ids where they stand: their moves go; what an array hasn't is named."""
        module = self._porting.module
        for parent in self._chain(node):
            if not isinstance(parent, cst.Attribute):
                continue
            name = parent.attr.value
            call = module.parents[parent]
            called = isinstance(call, cst.Call) and call.func is parent
            if name in self._spelled and called:
                self._edit(self._behind(parent), module.span(call)[1], self._spelled[name])
            elif name in MOVES and called:
                self._strip(call)  # type: ignore[arg-type]
            elif name == "size" and called:
                start, end = self._behind(parent), module.span(call)[1]
                first = call.args[0] if call.args else None  # type: ignore[attr-defined]
                self._edit(start, end, ".shape" + (f"[{module.code(first.value)}]" if first is not None else ""))
                return
            elif name in REDUCES and isinstance(call, cst.Call) and called:
                if not self._along_axes(call, name):
                    return
            elif name in SHAPED and isinstance(call, cst.Call) and called and self._shaped(parent, call):
                continue
            elif name in TORCH_ONLY or (name in OTHERWISE and called) or name in SHAPED or _in_place(name):
                self._name_torch(call if called else parent)
                return
            elif name not in HELD:
                return
        if (last := self._last) is not None:
            around = module.parents[last]
            self._given_to_torch(around)
            if isinstance(around, cst.Assign) and len(around.targets) == 1 and around.value is last:
                target = around.targets[0].target
                if isinstance(target, cst.Name) and (found := module.meaning(target)) is not None:
                    own = [binding for binding in found[1] if binding.node is around]
                    self._name(target.value, found[0], own, DEEPEST, False)

    def _along_axes(self, call: cst.Call, name: str) -> bool:
        """`mask.sum(dim=1)` → `mask.sum(axis=1)`; whether what it gives is an array in both."""
        if name in PAIRED and call.args:
            self._name_torch(call)
            return False
        for argument in call.args:
            if argument.keyword is not None and argument.keyword.value in AXES:
                self._edit(*self._porting.module.span(argument.keyword), AXES[argument.keyword.value])
        return True

    def _shaped(self, method: cst.Attribute, call: cst.Call) -> bool:
        """`ids.unsqueeze(0)` → `ids[None]`, `ids.view(1, -1)` → `ids.reshape(1, -1)`; whether an array has it so."""
        module = self._porting.module
        if method.attr.value != "unsqueeze":
            plain = all(part.keyword is None and not part.star for part in call.args)
            of_types = any((module.qualified(part.value) or "").startswith("torch.") for part in call.args)
            if not plain or of_types or (method.attr.value == "flatten" and call.args):
                return False
            if method.attr.value == "view":
                self._edit(*module.span(method.attr), "reshape")
            return True
        new = NEW_AXES.get(module.code(call.args[0].value)) if len(call.args) == 1 else None
        if new is not None:
            self._edit(self._behind(method), module.span(call)[1], new)
        return new is not None

    def _given_to_torch(self, argument: cst.CSTNode) -> None:
        """`torch.ones_like(ids)` takes tensors alone; NumPy has most of these functions by the same name."""
        module = self._porting.module
        call = module.parents[argument] if isinstance(argument, cst.Arg) else None
        function = module.qualified(call.func) if isinstance(call, cst.Call) else None
        if not isinstance(call, cst.Call) or function is None or not function.startswith("torch."):
            return
        name = function.removeprefix("torch.")
        if name in ALIKE and all(part.keyword is None for part in call.args):
            self._porting.imports.add("import numpy as np")
            self._edit(*module.span(call.func), f"np.{name}")
        elif name not in TAKES_ARRAYS:
            self._name_torch(call)

    _last: cst.BaseExpression | None = None

    def _chain(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The attributes, items and moves behind an expression; `_last` is the whole, which may be
        calculated or compared with more: `(ids != pad).sum(dim=1)`."""
        module = self._porting.module
        self._last = node
        while True:
            parent = module.parents[node]
            if isinstance(parent, cst.Attribute | cst.Subscript) and parent.value is node:
                yield parent
            elif isinstance(parent, cst.ComparisonTarget):
                parent = module.parents[parent]
            elif not (isinstance(parent, cst.Call) and parent.func is node) and not isinstance(
                parent, cst.Comparison | cst.BinaryOperation | cst.UnaryOperation
            ):
                return
            if isinstance(parent, cst.Comparison) and any(
                isinstance(each.operator, cst.In | cst.NotIn | cst.Is | cst.IsNot) for each in parent.comparisons
            ):
                return
            assert isinstance(parent, cst.BaseExpression)
            self._last = node = parent

    def _strip(self, call: cst.Call) -> None:
        """`ids.to("cuda")` → `ids`; a statement that does no more goes."""
        module = self._porting.module
        assert isinstance(call.func, cst.Attribute)
        parent = module.parents[call]
        kept = module.code(call.func.value)
        same = (
            isinstance(parent, cst.Assign)
            and len(parent.targets) == 1
            and module.code(parent.targets[0].target) == kept
        )
        start, end = self._behind(call.func), module.span(call)[1]
        if self._porting.covered(start):
            return
        named = [(module.qualified(argument.value) or "").removeprefix("torch.") for argument in call.args]
        changed = next((TYPES[name] for name in named if name in TYPES), None)
        if changed is not None and call.func.attr.value == "to":
            self._edit(start, end, f'.astype("{changed}")')
        elif same:
            self._porting.remove_statement(call, self._rule, REASON)
        else:
            self._edit(start, end, "")

    def _behind(self, attribute: cst.Attribute) -> int:
        """Where what an attribute is of ends, its parentheses included: in front of the dot."""
        module = self._porting.module
        dot = module.text.rindex(".", 0, module.span(attribute.attr)[0])
        return len(module.text[:dot].rstrip())

    def _edit(self, start: int, end: int, new: str) -> None:
        if not self._porting.covered(start):
            self._porting.edit(start, end, new, self._rule, REASON)

    def _name_torch(self, node: cst.CSTNode) -> None:
        porting = self._porting
        if porting.covered(porting.module.span(node)[0]):
            return
        message = f"{shortened(porting.module.code(node))}: these token ids are a NumPy array in the port."
        porting.find(self._rule, "error", message, "Write it with NumPy.", *porting.module.location(node))


def _in_place(name: str) -> bool:
    """Whether a method changes a tensor itself: `masked_fill_`."""
    return name.endswith("_") and not name.startswith("_")


class _OnHost(_Follower):
    """Follows tensors that stay torch's: only what puts them on a device goes."""

    def asks(self, node: cst.Call, ids: bool) -> bool:
        return any(
            argument.keyword is not None and argument.keyword.value == "return_tensors" for argument in node.args
        )

    def onwards(self, node: cst.BaseExpression) -> None:
        for parent in self._chain(node):
            call = self._porting.module.parents[parent]
            if isinstance(call, cst.Call) and call.func is parent and self._moves(call):
                self._strip(call)

    def _moves(self, call: cst.Call) -> bool:
        """`.cuda()`, `.to(model.device)`, `.to("cuda")`; `.to(torch.long)` makes other numbers."""
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in ("to", "cuda"):
            return False
        given = [self._porting.module.qualified(argument.value) or "" for argument in call.args]
        return len(given) <= 1 and not any(name.startswith("torch.") for name in given)
