"""A module of one's own by that name: nothing here may change."""


class beacon:
    now = print
    log_model = print

    @staticmethod
    def timed(name):
        return print


@beacon.timed("rows")
def rows():
    return beacon.now()


beacon.log_model("model", "name")
