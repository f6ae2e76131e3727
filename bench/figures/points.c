/* The loops of Figure 15's application: where a taxi's flag changes, and one round of K-means over
 * some points. Python calls them without its lock, so that several threads run side by side.
 *
 * Sums are of doubles, in the order of the points: the same points give the same sums, however many
 * threads there are, as long as they are cut into the same chunks. */

#include <stdint.h>
#include <string.h>

/* Writes the places where `occupied` differs from the same taxi's row before; their number.
 * `before` is the last row of the rows before: taxi and flag; a taxi below 0 is none. */
int64_t find_changes(int64_t rows, const int32_t *taxi, const double *longitude,
                     const double *latitude, const int16_t *occupied, const int32_t *before,
                     double *out_longitude, double *out_latitude)
{
    int64_t found = 0;
    int32_t last_taxi = before[0], last_occupied = before[1];
    for (int64_t i = 0; i < rows; i++) {
        out_longitude[found] = longitude[i];
        out_latitude[found] = latitude[i];
        found += (taxi[i] == last_taxi) & (occupied[i] != last_occupied);
        last_taxi = taxi[i];
        last_occupied = occupied[i];
    }
    return found;
}

/* Numbers of a register; the compiler takes several registers where they are smaller. */
typedef float floats __attribute__((vector_size(32)));
typedef int32_t ints __attribute__((vector_size(32)));
enum { LANES = sizeof(floats) / sizeof(float), POINTS = 2 * LANES };

/* The nearest centres of POINTS points. */
static void nearest_centres(const float *x, const float *y, int32_t k, const float *centre_x,
                            const float *centre_y, int32_t *out)
{
    floats of_x[2], of_y[2], best[2];
    ints nearest[2] = {{0}, {0}};
    memcpy(of_x, x, sizeof of_x);
    memcpy(of_y, y, sizeof of_y);
    for (int half = 0; half < 2; half++)
        best[half] = (floats){0} + 3e38f;
    for (int32_t c = 0; c < k; c++) {
        floats at_x = (floats){0} + centre_x[c], at_y = (floats){0} + centre_y[c];
        ints this = (ints){0} + c;
        for (int half = 0; half < 2; half++) {
            floats east = of_x[half] - at_x, north = of_y[half] - at_y;
            floats square = east * east + north * north;
            ints nearer = square < best[half];
            best[half] = (floats)(((ints)square & nearer) | ((ints)best[half] & ~nearer));
            nearest[half] = (this & nearer) | (nearest[half] & ~nearer);
        }
    }
    memcpy(out, nearest, sizeof nearest);
}

/* Adds each point to the sums of its nearest centre: x, y, number; `sums` has 3 * k places. */
void add_to_nearest(int64_t points, const float *x, const float *y, int32_t k,
                    const float *centre_x, const float *centre_y, double *sums)
{
    int32_t nearest[POINTS];
    memset(sums, 0, 3 * (size_t)k * sizeof *sums);
    for (int64_t begin = 0; begin < points; begin += POINTS) {
        int64_t many = points - begin < POINTS ? points - begin : POINTS;
        float last_x[POINTS] = {0}, last_y[POINTS] = {0};
        const float *of_x = x + begin, *of_y = y + begin;
        if (many < POINTS) {
            memcpy(last_x, of_x, (size_t)many * sizeof *last_x);
            memcpy(last_y, of_y, (size_t)many * sizeof *last_y);
            of_x = last_x;
            of_y = last_y;
        }
        nearest_centres(of_x, of_y, k, centre_x, centre_y, nearest);
        for (int64_t i = 0; i < many; i++) {
            double *sum = sums + 3 * nearest[i];
            sum[0] += of_x[i];
            sum[1] += of_y[i];
            sum[2] += 1;
        }
    }
}
