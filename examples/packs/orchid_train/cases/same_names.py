"""Names of the same spelling that aren't Orchid's: nothing here may change."""


class OrchidTrainer:
    def publish(self, name):
        print(name)


def on_cluster():
    return False


trainer = OrchidTrainer()
if on_cluster():
    print("no")
trainer.publish("orchid/support")
