"""PEFT: counted parameters, all linear layers, adapters that are saved or merged."""
