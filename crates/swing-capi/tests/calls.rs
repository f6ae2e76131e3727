//! The C interface as a program of one process uses it: any order of calls does what a model does.
//! Wrong arguments, and what several processes do with each other, are tested in C (`tests/capi`).
//!
//! One test, since the interface has one namespace a process.

use std::path::Path;
use std::ptr::null_mut;

use swing_capi::calls::*;

/// Short areas, which consist of small extents, and longer ones.
const LENGTHS: [std::ops::Range<usize>; 2] = [1..9 << 20, 60 << 20..80 << 20];
const NO_AREA: swing_area =
    swing_area { address: null_mut(), length: 0, token: 0, at_origin: 0, published_ns: 0 };
const NO_BLOCK: swing_block = swing_block { address: null_mut(), size: 0 };

#[test]
fn the_interface_in_one_process() {
    let home = tempfile::Builder::new()
        .prefix("swing-test-")
        .tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    // SAFETY: the only test of this program, before anything else runs.
    unsafe { std::env::set_var("SWINGDB_HOME", home.path()) };
    folders_that_no_token_has(home.path());
    a_database_with_the_name_of_a_token_stays(home.path());
    any_order_does_what_the_model_does();
    assert_eq!(swing_collect(), 0, "everything was released");
}

fn create(length: usize) -> swing_area {
    let mut area = NO_AREA;
    // SAFETY: room for an area.
    assert_eq!(unsafe { swing_create(length, &raw mut area) }, 0);
    assert!((1..=4095).contains(&area.token) && area.length >= length && area.at_origin == 1);
    area
}

/// Anybody may make folders with names like those of tokens' areas.
fn folders_that_no_token_has(home: &Path) {
    let odd = ["0", "4096", "007", "+7", "-7", "7 ", "99999999999", ""];
    let folders = odd.map(|text| home.join(format!("swing-token-{text}")));
    folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    assert_eq!(swing_collect(), 0);
    assert_eq!(swing_release(create(1).token), 0);
    for folder in folders {
        std::fs::remove_dir(folder).unwrap();
    }
}

/// Whatever a living process does not have is taken away, but for what leaves something with its
/// states, as databases do.
fn a_database_with_the_name_of_a_token_stays(home: &Path) {
    let namespace = swing::Namespace::open(home).unwrap();
    let names = [5, 17, 4095].map(|t| swing::AreaName::new(&format!("swing-token-{t}")).unwrap());
    for name in &names {
        let options = swing::AreaOptions::with_reserve(swing::ByteLen::mib(64));
        let area = namespace.create(name, &options).unwrap();
        area.publish(swing::Publish::Committed, b"its catalog").unwrap();
    }
    assert_eq!(swing_collect(), 0);
    // Each token once: those of the databases are passed over.
    for _ in 0..4095 - 3 {
        assert_eq!(swing_release(create(1).token), 0);
    }
    for name in &names {
        assert_eq!(namespace.open_area(name).unwrap().payload(), b"its catalog");
        namespace.remove(name).unwrap();
    }
}

/// A block: where it is in its area, its length and what it is filled with.
type Filled = (usize, usize, u8);

/// An area, and what it must hold.
struct Model {
    area: swing_area,
    blocks: Vec<Filled>,
    /// The blocks of the last publish.
    published: Option<Vec<Filled>>,
}

impl Model {
    fn new(area: swing_area, blocks: Vec<Filled>) -> Self {
        Self { area, blocks, published: None }
    }

    fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.area.length);
        self.area.address.wrapping_byte_add(offset).cast()
    }

    fn add(&mut self, block: swing_block, value: u8) {
        let offset = block.address as usize - self.area.address as usize;
        let apart = |(at, len, _): &Filled| offset + block.size <= *at || at + len <= offset;
        assert!(self.blocks.iter().all(apart), "no byte belongs to two blocks");
        // SAFETY: the block was just granted.
        unsafe { self.at(offset).write_bytes(value, block.size) };
        self.blocks.push((offset, block.size, value));
    }

    fn check(&self) {
        let (token, mut blocks) = (self.area.token, usize::MAX);
        // SAFETY: room for a number.
        assert_eq!(unsafe { swing_check_heap(token, &raw mut blocks) }, 0);
        assert_eq!(blocks, self.blocks.len(), "token {token}");
        for (offset, len, value) in &self.blocks {
            // SAFETY: a block that has not been freed; nobody else stores there.
            let bytes = unsafe { std::slice::from_raw_parts(self.at(*offset), *len) };
            assert!(bytes.iter().all(|b| b == value), "token {} at {offset}", self.area.token);
        }
    }
}

fn any_order_does_what_the_model_does() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut models: Vec<Model> = Vec::new();
    for _ in 0..600 {
        if models.len() < 2 {
            let lengths = LENGTHS[rng.usize(..2)].clone();
            models.push(Model::new(create(rng.usize(lengths)), Vec::new()));
        }
        let at = rng.usize(..models.len());
        let (model, value) = (&mut models[at], rng.u8(1..));
        let (token, mut block, mut area) = (model.area.token, NO_BLOCK, NO_AREA);
        // SAFETY: room for the results; blocks that were granted and not freed.
        unsafe {
            match rng.u32(..21) {
                0..8 => {
                    if swing_alloc(token, rng.usize(1..60_000), &raw mut block) == 0 {
                        model.add(block, value);
                    }
                }
                8..13 if !model.blocks.is_empty() => {
                    let (offset, ..) = model.blocks.swap_remove(rng.usize(..model.blocks.len()));
                    assert_eq!(swing_free(model.at(offset).cast()), 0);
                }
                13..15 if !model.blocks.is_empty() => {
                    let i = rng.usize(..model.blocks.len());
                    let (offset, len, old) = model.blocks[i];
                    let asked = rng.usize(1..60_000);
                    if swing_realloc(model.at(offset).cast(), asked, &raw mut block) == 0 {
                        model.blocks.swap_remove(i);
                        let kept = len.min(asked);
                        let bytes = std::slice::from_raw_parts(block.address.cast::<u8>(), kept);
                        assert!(bytes.iter().all(|b| *b == old), "the contents go along");
                        model.add(block, value);
                    }
                }
                15 => {
                    assert_eq!(swing_publish(token), 0);
                    model.published = Some(model.blocks.clone());
                }
                19 => {
                    let (align, asked) = (1 << rng.u32(..13), rng.usize(1..9000));
                    if swing_alloc_aligned(token, asked, align, &raw mut block) == 0 {
                        assert!(block.size >= asked && block.address.addr().is_multiple_of(align));
                        model.add(block, value);
                    }
                }
                16 if models.len() < 6 => {
                    assert_eq!(swing_copy(token, &raw mut area), 0);
                    let blocks = models[at].blocks.clone();
                    models.push(Model::new(area, blocks));
                }
                17 if models.len() < 6 => {
                    let hooked = swing_hook(token, SWING_PUBLISHED, &raw mut area);
                    match models[at].published.clone() {
                        Some(blocks) if hooked == 0 => models.push(Model::new(area, blocks)),
                        published => assert!(hooked < 0 && published.is_none(), "{hooked}"),
                    }
                }
                18 if models.len() > 2 => {
                    assert_eq!(swing_release(token), 0);
                    models.swap_remove(at);
                }
                _ => models.iter().for_each(Model::check),
            }
        }
    }
    for model in models {
        model.check();
        assert_eq!(swing_release(model.area.token), 0);
    }
}
