"""Names that look like Acme's and aren't: nothing here may change."""


class AcmeLoraConfig:
    rank = 8


def notify(text):
    print(text)


config = AcmeLoraConfig()
notify("done")
