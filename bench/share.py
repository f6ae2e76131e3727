"""How long share() takes after one row of the database has changed, at several sizes."""

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
    common.write("share", {"rows": rows})


if __name__ == "__main__":
    main()
