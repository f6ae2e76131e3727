//! A heap that lies in an area, and where its parts are.

use std::collections::HashMap;

use swing::{AreaName, Namespace};
use swing_heap::{Handle, HeapOptions, ObjectHeap};

use super::on_disk;

pub struct Place {
    pub home: tempfile::TempDir,
    pub disk: tempfile::TempDir,
    pub ns: Namespace,
}

pub fn place() -> Place {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let ns = Namespace::open(home.path()).unwrap();
    Place { home, disk: on_disk(), ns }
}

pub fn name() -> AreaName {
    AreaName::new("heap").unwrap()
}

pub fn open(place: &Place, options: HeapOptions) -> ObjectHeap {
    ObjectHeap::open_in(&place.ns, &name(), place.disk.path(), options).unwrap()
}

pub type Contents = HashMap<Handle, Vec<u8>>;
