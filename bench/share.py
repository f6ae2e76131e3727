"""How long share() takes after one row of the database has changed, at several sizes, and after an
import of 1 GB."""

from __future__ import annotations

import common


def main() -> None:
    """Measures and writes."""
    arguments = common.parse(__doc__)
    rows = []
    with common.namespace():
        for label, size in common.sizes(arguments).items():
            name = f"numbers-{size}"
            common.job(arguments, "fill", name, str(size))
            measured = common.job(arguments, "share", name)
            row = {"size": label} | {k: common.summary(v) for k, v in measured.items()}
            rows.append(row)
            took = row["share_us"]
            print(
                f"{label}: share {took['median']:.0f} us (quartiles {took['quarter']:.0f}-"
                f"{took['three_quarters']:.0f}), the change before it "
                f"{row['change_us']['median']:.0f} us",
                flush=True,
            )
        large = common.job(arguments, "share-large", f"numbers-{common.MB}", str(common.GB))
        for row in large["rows"]:
            times = row.pop("times")
            row |= {name: common.summary(values) for name, values in times.items()}
            print(
                f"{row['change']}: share by the writer {row['writer_us']['median']:.0f} us, as "
                f"the first of a snapshot {row['snapshot_us']['median']:.0f} us",
                flush=True,
            )
    common.write("share", {"rows": rows, "large": large})


if __name__ == "__main__":
    main()
