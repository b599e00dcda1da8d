"""Run as a process of its own: commits appends and tables to a lakehouse, and prints what was acknowledged."""

import sys

import mangrove
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType

if __name__ == "__main__":
    uri, worker, count = sys.argv[1:]
    lake = mangrove.open(uri)
    for number in range(int(count)):
        name = f"w{worker}-{number:03d}"
        with lake.transaction(message=name) as transaction:
            if number % 2:
                transaction.create_table(f"sales.`{name}`", "id int")
            else:
                rows = Delta(DeltaType.APPEND, Manifest((DataFile(f"data/{name}", 1, 1),)))
                transaction.add_delta("sales.orders", (), rows)
        sys.stdout.write(f"{name} {transaction.version}\n")
