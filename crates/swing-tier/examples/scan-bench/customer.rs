//! TPC-C's table CUSTOMER (TPC-C 5.11, clauses 1.3.1 and 4.3.3.1), as pages of rows of fixed width.
//!
//! | bytes | column | | bytes | column |
//! |---|---|---|---|---|
//! | 0-3 | C_ID | | 140-147 | C_SINCE |
//! | 4-7 | C_D_ID | | 148-149 | C_CREDIT |
//! | 8-11 | C_W_ID | | 152-159 | C_CREDIT_LIM |
//! | 12-27 | C_FIRST | | 160-167 | C_DISCOUNT |
//! | 28-29 | C_MIDDLE | | 168-175 | C_BALANCE |
//! | 30-45 | C_LAST | | 176-183 | C_YTD_PAYMENT |
//! | 46-105 | C_STREET_1, C_STREET_2, C_CITY | | 184-191 | C_PAYMENT_CNT, C_DELIVERY_CNT |
//! | 106-107 | C_STATE | | 192-691 | C_DATA |
//! | 108-116 | C_ZIP | | | |
//! | 117-132 | C_PHONE | | | |
//!
//! A page begins with the number of its rows, in 8 bytes.

/// Length of a row, in bytes.
pub const ROW_BYTES: usize = 696;
/// Length of a page's header, in bytes.
pub const PAGE_HEADER_BYTES: usize = 8;

const CUSTOMERS_A_DISTRICT: u64 = 3000;
const DISTRICTS: u64 = 10;
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789  ";

/// Makes the rows, in the order of their keys.
pub struct Customers {
    next: u64,
    random: fastrand::Rng,
    c_load: u64,
}

impl Customers {
    pub fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let c_load = random.u64(0..256);
        Customers { next: 0, random, c_load }
    }

    /// How many rows there have been.
    pub fn count(&self) -> u64 {
        self.next
    }

    /// A page of `len` bytes, full of rows.
    pub fn page(&mut self, len: usize) -> Vec<u8> {
        let rows = (len - PAGE_HEADER_BYTES) / ROW_BYTES;
        let mut page = vec![0; len];
        page[..8].copy_from_slice(&(rows as u64).to_le_bytes());
        for row in page[PAGE_HEADER_BYTES..].chunks_exact_mut(ROW_BYTES).take(rows) {
            self.fill(row);
        }
        page
    }

    fn fill(&mut self, row: &mut [u8]) {
        let number = self.next;
        self.next += 1;
        let customer = number % CUSTOMERS_A_DISTRICT;
        let district = number / CUSTOMERS_A_DISTRICT % DISTRICTS;
        let warehouse = number / (CUSTOMERS_A_DISTRICT * DISTRICTS);
        for (at, key) in [customer, district, warehouse].into_iter().enumerate() {
            row[4 * at..4 * at + 4].copy_from_slice(&(key as u32 + 1).to_le_bytes());
        }
        self.text(&mut row[12..28], 8);
        row[28..30].copy_from_slice(b"OE");
        let last = if customer < 1000 { customer } else { self.skewed_name() };
        put(&mut row[30..46], &last_name(last));
        (46..106).step_by(20).for_each(|at| self.text(&mut row[at..at + 20], 10));
        self.text(&mut row[106..108], 2);
        let zip = self.random.u32(0..10_000);
        put(&mut row[108..117], &format!("{zip:04}11111"));
        let phone = self.random.u64(0..10_u64.pow(16));
        put(&mut row[117..133], &format!("{phone:016}"));
        row[140..148].copy_from_slice(&1_795_651_200_u64.to_le_bytes());
        let credit = if self.random.u32(0..10) == 0 { b"BC" } else { b"GC" };
        row[148..150].copy_from_slice(credit);
        let discount = f64::from(self.random.u32(0..=5000)) / 10_000.0;
        for (at, value) in [50_000.0, discount, -10.0, 10.0].into_iter().enumerate() {
            row[152 + 8 * at..160 + 8 * at].copy_from_slice(&f64::to_le_bytes(value));
        }
        row[184..188].copy_from_slice(&1_u32.to_le_bytes());
        self.text(&mut row[192..692], 300);
    }

    /// A random text of at least `least` bytes, and zeros behind it.
    fn text(&mut self, into: &mut [u8], least: usize) {
        let len = self.random.usize(least..=into.len());
        for ten in into[..len].chunks_mut(10) {
            let mut bits = self.random.u64(..);
            for byte in ten {
                *byte = LETTERS[(bits % 64) as usize];
                bits >>= 6;
            }
        }
    }

    /// NURand(255, 0, 999) of the specification.
    fn skewed_name(&mut self) -> u64 {
        let (a, b) = (self.random.u64(0..256), self.random.u64(0..1000));
        ((a | b) + self.c_load) % 1000
    }
}

fn last_name(number: u64) -> String {
    [number / 100, number / 10 % 10, number % 10].map(|n| SYLLABLES[n as usize]).concat()
}

fn put(into: &mut [u8], text: &str) {
    let len = text.len().min(into.len());
    into[..len].copy_from_slice(&text.as_bytes()[..len]);
}

/// The primary key of each row of a page, as one number that counts from 1.
pub fn keys(page: &[u8], into: &mut Vec<i64>) {
    let Some((header, rows)) = page.split_first_chunk::<PAGE_HEADER_BYTES>() else { return };
    let count = u64::from_le_bytes(*header) as usize;
    into.extend(rows.chunks_exact(ROW_BYTES).take(count).map(|row| {
        let word = |at: usize| {
            i64::from(u32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]))
        };
        ((word(8) - 1) * DISTRICTS as i64 + word(4) - 1) * CUSTOMERS_A_DISTRICT as i64 + word(0)
    }));
}
