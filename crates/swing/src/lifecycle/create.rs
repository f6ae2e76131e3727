//! Making a new area, with this process as its writer.

use crate::area::handle::Area;
use crate::area::options::AreaOptions;
use crate::area::start::Start;
use crate::lifecycle::fork::handle_forks;
use crate::memory::mapping::Mapping;
use crate::model::error::{Context, CreateError, Result};
use crate::model::name::AreaName;
use crate::model::runs::RunMap;
use crate::model::units::AreaId;
use crate::namespace::handle::Namespace;
use crate::sys::process;

impl Namespace {
    /// Creates a named area with this process as its writer.
    pub fn create(&self, name: &AreaName, opts: &AreaOptions) -> Result<Area, CreateError> {
        let ctx = Context::named(name, self.path());
        self.create_inner(Some(name), opts).map_err(|f| CreateError::from_fault(f, &ctx))
    }

    /// Creates an area without a name: it dies with its process and cannot be hooked by others.
    pub fn create_unnamed(&self, opts: &AreaOptions) -> Result<Area, CreateError> {
        let ctx = Context::path(self.path());
        self.create_inner(None, opts).map_err(|f| CreateError::from_fault(f, &ctx))
    }

    fn create_inner(&self, name: Option<&AreaName>, opts: &AreaOptions) -> Result<Area> {
        handle_forks();
        let geometry = opts.geometry()?;
        let backing = self.choose_backing(opts.backing)?;
        let id = AreaId(process::random_id());
        let mapping = Mapping::reserve(self.on_release(), geometry, opts.base_hint)?;
        mapping.claim_writer();
        let made = self.make_area_folder(name, id, &[])?;
        Ok(Area::start(Start {
            ns: self.clone(),
            folder: made.folder,
            lock: made.lock,
            id,
            name: name.cloned(),
            cow_threshold: opts.cow_threshold,
            backing,
            mapping,
            runs: RunMap::default(),
            sources: vec![None],
            payload: Vec::new(),
        }))
    }
}
