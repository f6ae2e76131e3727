//! Opening a database in memory: as its one writer, as a private one, as a snapshot.

use std::sync::Arc;

use swing::{Area, AreaName, AreaOptions, CreateError, Namespace, OpenError, Snapshot};
use swing_malloc::{BlockTable, Heap, HeapOptions};
use swingdb_common::error::{Error, Result};

use crate::catalog::state::Catalog;
use crate::commit::root::read_state;
use crate::commit::writer::Writer;
use crate::errors::area::{corrupt, create_error, heap_error, hook_error, open_error, suggest};
use crate::memory::space::{Ground, Space};
use crate::store::handle::{MEMORY, Store, StoreKind};

/// How often opening is tried while others create or drop the same name.
const MAX_OPEN_TRIES: u32 = 8;

impl Store {
    /// Opens the database in memory, whether or not it has a store.
    pub(crate) fn open_alone(namespace: &Namespace, name: &str) -> Result<Self> {
        let area_name = area_name(name)?;
        for _ in 0..MAX_OPEN_TRIES {
            match namespace.open_area(&area_name) {
                Ok(area) => return Self::adopt(namespace, area_name, Arc::new(area)),
                Err(OpenError::NotFound { .. }) => {}
                Err(error) => return Err(open_error(error, name)),
            }
            match namespace.create(&area_name, &AreaOptions::default_database()) {
                Ok(area) => return Self::create(namespace, Some(area_name), Arc::new(area)),
                Err(CreateError::AlreadyExists { .. }) => {}
                Err(error) => return Err(create_error(error, name)),
            }
        }
        Err(Error::Busy { name: name.to_owned(), pid: None, command: None })
    }

    /// A new unnamed database that dies with the process.
    pub fn create_private(namespace: &Namespace) -> Result<Self> {
        let area = namespace.create_unnamed(&AreaOptions::default_database());
        let area = area.map_err(|e| create_error(e, "(unnamed)"))?;
        Self::create(namespace, None, Arc::new(area))
    }

    fn create(namespace: &Namespace, name: Option<AreaName>, area: Arc<Area>) -> Result<Self> {
        let space = Space::of_area(&area);
        let options = HeapOptions { blocks: BlockTable::None, ..HeapOptions::default() };
        let heap = Heap::create(area, options).map_err(heap_error)?;
        let ground = Ground::new(space.clone(), heap);
        let catalog = Catalog::empty(space);
        let mut writer = Writer::new(None, 0, Vec::new());
        let kind = if name.is_some() { StoreKind::Writer } else { StoreKind::Private };
        // The first commit is what makes the name stay: a database that nothing was put into leaves
        // nothing behind, whether its handle is closed or its process killed.
        writer.published = name.is_some();
        writer.ground = Some(ground);
        Ok(Self::with(namespace, kind, (name, None), catalog, None, writer))
    }

    fn adopt(namespace: &Namespace, name: AreaName, area: Arc<Area>) -> Result<Self> {
        let space = Space::of_area(&area);
        let (catalog, root, limbo) = read_state(&space, &area.payload())?;
        let heap = Heap::open(area).map_err(heap_error)?;
        let ground = Ground::new(space.clone(), heap);
        space.inherit_limbo(limbo);
        let mut writer = Writer::new(Some(root), catalog.version, Vec::new());
        writer.ground = Some(ground);
        writer.published = true;
        let names = (Some(name), None);
        Ok(Self::with(namespace, StoreKind::Writer, names, catalog, None, writer))
    }

    /// The newest shared state of `name` as an unnamed snapshot.
    pub fn hook(namespace: &Namespace, name: &str) -> Result<Self> {
        Self::hook_as(namespace, name, None)
    }

    /// The newest shared state of `proposed` as a snapshot called `target`, which can be shared on
    /// under that name.
    pub fn hook_named(namespace: &Namespace, proposed: &str, target: &str) -> Result<Self> {
        Self::hook_as(namespace, proposed, Some(area_name(target)?))
    }

    fn hook_as(namespace: &Namespace, origin: &str, name: Option<AreaName>) -> Result<Self> {
        let origin = area_name(origin)?;
        let (snapshot, catalog, writer) = take_snapshot(namespace, &origin)?;
        let names = (name, Some(origin));
        let store =
            Self::with(namespace, StoreKind::Snapshot, names, catalog, Some(snapshot), writer);
        if store.inner.name.is_some() {
            store.with_writer(|writer, _| store.area(writer).map(drop))?;
        }
        Ok(store)
    }
}

fn area_name(name: &str) -> Result<AreaName> {
    if name == MEMORY {
        let message = "is that of private databases, which others cannot find; choose another name";
        return Err(Error::plan(format!("the name {name:?} {message}")));
    }
    AreaName::new(name).map_err(|e| Error::plan(format!("the name {name:?}: {e}")))
}

/// Hooks `origin` and reads its catalog.
pub(crate) fn take_snapshot(
    namespace: &Namespace,
    origin: &AreaName,
) -> Result<(Snapshot, Catalog, Box<Writer>)> {
    let snapshot = namespace.hook(origin);
    let snapshot = snapshot.map_err(|e| suggest(hook_error(e, origin.as_str()), namespace))?;
    let space = Space::of_snapshot(&snapshot);
    let (catalog, root, limbo) = read_state(&space, snapshot.payload())?;
    if catalog.schemas.is_empty() {
        return Err(space.named(corrupt("a catalog without schemas")));
    }
    let writer = Writer::new(Some(root), catalog.version, limbo);
    Ok((snapshot, catalog, writer))
}
