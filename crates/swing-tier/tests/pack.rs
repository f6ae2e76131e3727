//! Encoded blocks: what is encoded comes back, whatever it is and whatever it is said to be, and
//! bytes that no block was encoded to are an error or some bytes, never a panic.

use swing_tier::pack::{Shape, decode, encode};

const SHAPES: [Shape; 7] = [
    Shape::Numbers { width: 1 },
    Shape::Numbers { width: 2 },
    Shape::Numbers { width: 4 },
    Shape::Numbers { width: 8 },
    Shape::Numbers { width: 16 },
    Shape::Views,
    Shape::Bytes,
];

fn numbers<const N: usize>(count: usize, number: impl FnMut(usize) -> i128) -> Vec<u8> {
    (0..count).map(number).flat_map(|n| n.to_le_bytes()[..N].to_vec()).collect()
}

/// Views as a column has them: long strings in row order, 8192 rows a buffer.
fn views(strings: &[Vec<u8>]) -> Vec<u8> {
    let (mut views, mut offset) = (Vec::new(), 0u32);
    for (row, string) in strings.iter().enumerate() {
        if row % 8192 == 0 {
            offset = 0;
        }
        let start = views.len();
        views.extend_from_slice(&(string.len() as u32).to_le_bytes());
        if string.len() <= 12 {
            views.extend_from_slice(string);
        } else {
            views.extend_from_slice(&string[..4]);
            views.extend_from_slice(&(row as u32 / 8192).to_le_bytes());
            views.extend_from_slice(&offset.to_le_bytes());
            offset += string.len() as u32;
        }
        views.resize(start + 16, 0);
    }
    views
}

/// Encodes and decodes; returns how many bytes it took.
fn there_and_back(bytes: &[u8], shape: Shape) -> usize {
    let Some(encoded) = encode(bytes, shape) else { return bytes.len() };
    assert!(encoded.len() < bytes.len(), "{shape:?}: it pays");
    let mut decoded = vec![0xAA; bytes.len()];
    decode(&encoded, &mut decoded).unwrap();
    assert!(decoded == bytes, "{shape:?}: other bytes come back");
    encoded.len()
}

/// What columns hold, with the bytes of 1000 that it may take at most.
fn columns(random: &mut fastrand::Rng) -> Vec<(&'static str, Vec<u8>, Shape, usize)> {
    const ROWS: usize = 20_000;
    let width = |width| Shape::Numbers { width };
    let words = ["furiously ", "express ", "deposits ", "sleep ", "quickly ", "final "];
    let comments: Vec<Vec<u8>> = (0..ROWS)
        .map(|_| (0..random.usize(0..6)).map(|_| random.choice(words).unwrap()).collect::<String>())
        .map(String::into_bytes)
        .collect();
    let flags: Vec<Vec<u8>> = (0..ROWS).map(|_| vec![random.alphabetic() as u8 & 0x43]).collect();
    let text: Vec<u8> = comments.iter().filter(|c| c.len() > 12).flatten().copied().collect();
    let mut key = 0;
    vec![
        ("the same", numbers::<8>(ROWS, |_| -7), width(8), 20),
        ("counted", numbers::<4>(ROWS, |n| n as i128 * 3 - 5), width(4), 20),
        ("decimals", numbers::<16>(ROWS, |_| random.i128(90_000..10_000_000)), width(16), 200),
        ("negative ones", numbers::<8>(ROWS, |_| random.i128(-500..500)), width(8), 200),
        ("dates", numbers::<4>(ROWS, |_| random.i128(8000..10_500)), width(4), 400),
        (
            "sorted keys",
            {
                numbers::<8>(ROWS, |_| {
                    key += if random.u8(0..4) == 0 { random.i128(1..30) } else { 0 };
                    key
                })
            },
            width(8),
            100,
        ),
        (
            "few values",
            numbers::<8>(ROWS, |_| [1, i64::MAX as i128, -3][random.usize(0..3)]),
            width(8),
            50,
        ),
        ("bytes of a few values", numbers::<1>(ROWS, |_| random.i128(0..3)), width(1), 300),
        ("all bits", numbers::<8>(ROWS, |_| random.i128(..)), width(8), 1000),
        ("wide ones", numbers::<16>(ROWS, |_| random.i128(..)), width(16), 1000),
        ("flags", views(&flags), Shape::Views, 20),
        ("comments", views(&comments), Shape::Views, 400),
        ("text", text, Shape::Bytes, 600),
        ("zeros", vec![0; 100_000], Shape::Bytes, 20),
        ("noise", (0..ROWS).map(|_| random.u8(..)).collect(), Shape::Bytes, 1000),
    ]
}

#[test]
fn columns_come_back_in_few_bytes() {
    let mut random = fastrand::Rng::with_seed(36);
    for (name, bytes, shape, most) in columns(&mut random) {
        let took = there_and_back(&bytes, shape);
        assert!(took * 1000 <= bytes.len() * most, "{name}: {took} of {}", bytes.len());
        // A shape that is wrong costs room only.
        for shape in SHAPES {
            there_and_back(&bytes, shape);
            there_and_back(&bytes[..bytes.len() - 3], shape);
            there_and_back(&bytes[5..], shape);
        }
    }
}

#[test]
fn numbers_at_the_ends_of_their_range_come_back() {
    let ends = [i128::MIN, -1, 0, 1, i128::MAX, i64::MAX.into(), i64::MIN.into()];
    let ends32 = [i32::MIN.into(), i32::MAX.into(), 0, -1];
    for n in [1usize, 63, 64, 65, 1023, 1024, 1025, 5000] {
        there_and_back(&numbers::<16>(n, |k| ends[k % 7]), Shape::Numbers { width: 16 });
        there_and_back(&numbers::<8>(n, |k| ends[k % 7]), Shape::Numbers { width: 8 });
        there_and_back(&numbers::<4>(n, |k| ends32[k % 4]), Shape::Numbers { width: 4 });
        // Steps that overflow where the numbers do not.
        let far = |k: usize| match (k / 700).is_multiple_of(2) {
            true => i64::MIN as i128,
            false => i64::MAX as i128,
        };
        there_and_back(&numbers::<8>(n, far), Shape::Numbers { width: 8 });
        there_and_back(&numbers::<16>(n, |k| (1 << 100) + k as i128), Shape::Numbers { width: 16 });
    }
}

#[test]
fn random_blocks_come_back() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..300 {
        let (len, values) = (random.usize(0..40_000), 1 << random.u32(0..9));
        let run = random.usize(1..64);
        let mut byte = 0;
        let bytes: Vec<u8> = (0..len)
            .map(|at| {
                if at % run == 0 {
                    byte = random.u32(0..values) as u8;
                }
                byte
            })
            .collect();
        for shape in SHAPES {
            there_and_back(&bytes, shape);
        }
    }
}

#[test]
fn views_that_are_no_views_of_ours_come_back() {
    let strings: Vec<Vec<u8>> = (0..3000u32).map(|n| vec![b'x'; n as usize % 40]).collect();
    let good = views(&strings);
    // Bytes behind a short string; offsets all over; buffers all over.
    for (at, step) in [(15, 16), (12, 16 * 3), (8, 16 * 5), (1, 16 * 7)] {
        let mut other = good.clone();
        (at..other.len()).step_by(step).for_each(|at| other[at] ^= at as u8 | 1);
        there_and_back(&other, Shape::Views);
    }
}

#[test]
fn damaged_blocks_are_an_error_or_other_bytes() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for (name, bytes, shape, _) in columns(&mut random) {
        let Some(encoded) = encode(&bytes, shape) else { continue };
        let mut out = vec![0; bytes.len()];
        for cut in [0, 1, 2, 3, 10, encoded.len() / 2, encoded.len() - 1] {
            assert!(decode(&encoded[..cut], &mut out).is_err(), "{name}, cut at {cut}");
        }
        let mut longer = encoded.clone();
        longer.push(0);
        assert!(decode(&longer, &mut out).is_err(), "{name}: a byte too many");
        // Of another length.
        for len in [0, 1, bytes.len() - 1, bytes.len() + 1, bytes.len() * 2] {
            let _ = decode(&encoded, &mut vec![0; len]);
        }
        for _ in 0..200 {
            let mut damaged = encoded.clone();
            for _ in 0..random.usize(1..4) {
                let near = if random.bool() { 64.min(damaged.len()) } else { damaged.len() };
                damaged[random.usize(0..near)] = random.u8(..);
            }
            let _ = decode(&damaged, &mut out);
        }
    }
    for _ in 0..3000 {
        let noise: Vec<u8> = (0..random.usize(0..300)).map(|_| random.u8(..)).collect();
        for method in 0..6 {
            let bytes = [&[method, random.u8(0..17)], noise.as_slice()].concat();
            let _ = decode(&bytes, &mut vec![0; random.usize(0..5000)]);
        }
    }
}
