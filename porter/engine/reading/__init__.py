"""From the sites of a trainer to the Recipe: its config, model, adapters, launch. `read_trainer` is the way in."""
