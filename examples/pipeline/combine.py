"""Stage C: takes the snapshots of A and B, cleans and combines them, and shares the result.

Nothing is copied to get the data: C works on its own writable snapshot of A's database under the
name `clean`, and reads B's beside it. What C writes is C's; A goes on storing and never notices.
"""

from __future__ import annotations

from stage import Stage

import swingdb

# The rows are ordered by taxi one slice of taxis after the other, so that sorting needs little
# memory however many rows there are.
MAX_ROWS_PER_SLICE = 5_000_000

CREATE = """
    CREATE TABLE positions (
        taxi_id INT NOT NULL, time TIMESTAMP NOT NULL, longitude DOUBLE NOT NULL,
        latitude DOUBLE NOT NULL, speed REAL NOT NULL, occupied BOOLEAN NOT NULL,
        zone_id INT NOT NULL, temperature_c REAL NOT NULL, rain_mm REAL NOT NULL)
"""

# A position's zone by its cell in the zones' grid, so that the join is one of equal keys. Positions
# outside of every zone and impossible speeds fall out here.
COMBINE = """
    INSERT INTO positions
    SELECT g.taxi_id, g.time, g.longitude, g.latitude, g.speed, g.occupied,
           z.zone_id, w.temperature_c, w.rain_mm
    FROM gps g
    JOIN zones z
      ON CAST(floor((g.longitude - {west}) / {width}) AS INT)
         = CAST(round((z.min_longitude - {west}) / {width}) AS INT)
     AND CAST(floor((g.latitude - {south}) / {height}) AS INT)
         = CAST(round((z.min_latitude - {south}) / {height}) AS INT)
    JOIN weather w
      ON w.zone_id = z.zone_id AND w.hour = date_trunc('hour', g.time)
    WHERE g.taxi_id BETWEEN {first} AND {last} AND g.speed BETWEEN 0 AND 150
    ORDER BY g.taxi_id, g.time
"""

GRID = """
    SELECT min(min_longitude), min(min_latitude),
           min(max_longitude - min_longitude), min(max_latitude - min_latitude)
    FROM zones
"""


def slices(first: int, last: int, rows: int) -> list[tuple[int, int]]:
    """Cuts the taxis first..last into slices of about MAX_ROWS_PER_SLICE rows each."""
    count = max(1, round(rows / MAX_ROWS_PER_SLICE))
    taxis = last - first + 1
    edges = [first + taxis * i // count for i in range(count + 1)]
    return [(a, b - 1) for a, b in zip(edges, edges[1:], strict=False) if a < b]


def combine(mine: swingdb.Connection) -> int:
    """Fills `positions`; the number of its rows."""
    west, south, width, height = mine.execute(GRID).fetchone()
    grid = {"west": west, "south": south, "width": width, "height": height}
    taxis = mine.execute("SELECT min(taxi_id), max(taxi_id), count(*) FROM gps").fetchone()
    mine.begin()
    mine.execute(CREATE)
    for first, last in slices(*taxis):
        mine.execute(COMBINE.format(first=first, last=last, **grid))
    mine.commit()
    return mine.execute("SELECT count(*) FROM positions").fetchone()[0]


def main() -> None:
    """The whole stage."""
    stage = Stage("C")
    # The reference first: it is there long before the taxis are.
    reference = stage.take_snapshot("reference")
    mine = stage.take_snapshot("taxi", "clean")
    with stage.step("clone reference") as facts:
        mine.attach(reference, "reference")
        for table in ("zones", "weather"):
            mine.execute(f"CREATE TABLE {table} CLONE reference.{table}")
        facts["tables"] = 2
    with stage.step("clean and combine") as facts:
        facts["before"] = mine.execute("SELECT count(*) FROM gps").fetchone()[0]
        facts["rows"] = combine(mine)
    stage.share(mine)
    mine.close()


if __name__ == "__main__":
    main()
