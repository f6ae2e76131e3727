//! The address range of an area or a snapshot.
//!
//! A mapping pins its addresses: it is unmapped when the last `Arc` is dropped, and only then the
//! leases that keep the memory behind it unchanged are given up. Only populated extents are mapped,
//! but for what a growing area maps in advance ([`crate::area::in_advance`]); touching any other
//! address is a fault, not a silently allocated page of zeros.

use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

use crate::memory::release::OnRelease;
use crate::model::error::{Fault, Result};
use crate::model::geometry::{Geometry, SMALL_EXTENT};
use crate::model::runs::Run;
use crate::model::units::{AreaId, ByteLen, Epoch};
use crate::namespace::lease::Lease;
use crate::sys::addresses::Span;
use crate::sys::kept_file::{Here, KeptFile};
use crate::sys::sync::Mutex;

/// A reserved address range; shared by whoever uses addresses in it.
#[derive(Debug)]
pub struct Mapping {
    // Field order is drop order: the addresses go before the leases that keep what they show.
    span: Span,
    geometry: Geometry,
    leases: Mutex<Vec<KeptLease>>,
    has_writer: AtomicBool,
    released: Arc<OnRelease>,
}

/// What is kept as long as the addresses are mapped: a lease, and the memory it is on, since
/// others may need to open a memfd through this process.
#[derive(Debug)]
struct KeptLease {
    lease: Arc<Lease>,
    _memory: Option<Arc<KeptFile>>,
}

impl Mapping {
    pub(crate) fn reserve(
        released: OnRelease,
        geometry: Geometry,
        hint: Option<usize>,
    ) -> Result<Arc<Self>> {
        let len = geometry.reserve();
        let span = Span::reserve(len.as_usize(), hint).map_err(|_| Fault::AddressSpace { len })?;
        Ok(Self::over(released, geometry, span))
    }

    /// At exactly these addresses.
    pub(crate) fn reserve_at(
        released: OnRelease,
        geometry: Geometry,
        at: usize,
    ) -> Result<Arc<Self>> {
        let len = geometry.reserve();
        let taken = |_| Fault::AddressTaken { address: at, len };
        let span = Span::reserve_at(len.as_usize(), at).map_err(taken)?;
        Ok(Self::over(released, geometry, span))
    }

    fn over(released: OnRelease, geometry: Geometry, span: Span) -> Arc<Self> {
        assert_eq!(span.len(), geometry.reserve().as_usize(), "addresses for all of the area");
        Arc::new(Self {
            span,
            geometry,
            leases: Mutex::new(Vec::new()),
            has_writer: AtomicBool::new(false),
            released: Arc::new(released),
        })
    }

    /// The first address. Valid (mapped) addresses are those of populated extents only.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.span.base()
    }

    /// Length of the reserved range in bytes.
    #[inline]
    pub fn len(&self) -> ByteLen {
        ByteLen(self.span.len() as u64)
    }

    /// Never: a mapping has at least one extent.
    pub fn is_empty(&self) -> bool {
        false
    }

    pub(crate) fn released(&self) -> &Arc<OnRelease> {
        &self.released
    }

    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Claims the right to change what this range shows; `false` when somebody has it already.
    pub(crate) fn claim_writer(&self) -> bool {
        !self.has_writer.swap(true, Ordering::AcqRel)
    }

    /// Keeps a lease as long as the addresses are mapped.
    pub(crate) fn keep(&self, lease: Arc<Lease>, memory: Option<Arc<KeptFile>>) {
        self.released.note(lease.area());
        self.leases.lock().push(KeptLease { lease, _memory: memory });
    }

    /// Gives up the lease on one manifest that no address of this range shows any more.
    pub(crate) fn release(&self, area: AreaId, epoch: Epoch) {
        let meant = |l: &Lease| l.area() == area && l.epoch() == epoch;
        self.leases.lock().retain(|kept| !meant(&kept.lease));
    }

    /// Maps a run of a file, with huge pages in the data zone.
    pub(crate) fn map_run(&self, run: &Run, file: &KeptFile, writable: bool) -> Result<(), Errno> {
        let (at, len) = (run.start as usize, run.len as usize);
        assert!(run.end() <= self.geometry.reserve().0, "a run lies inside its area");
        let whole = |at: u64| at.is_multiple_of(SMALL_EXTENT.0);
        assert!(whole(run.start) && whole(run.len) && whole(run.file_offset), "whole extents");
        self.span.map(at, len, file.here()?, run.file_offset, writable)?;
        self.advise(run.start, run.end());
        Ok(())
    }

    /// Maps a run for reading only. It needs no advice: what is there already is mapped by huge
    /// pages where it consists of them, and nothing new comes.
    pub(crate) fn map_to_read(&self, run: &Run, file: Here<'_>) -> Result<(), Errno> {
        let (at, len) = (run.start as usize, run.len as usize);
        assert!(run.end() <= self.geometry.reserve().0, "a run lies inside its area");
        self.span.map(at, len, file, run.file_offset, false)
    }

    /// The same advice for every mapping of the data zone, since neighbours merge only with equal
    /// advice.
    fn advise(&self, start: u64, end: u64) {
        let start = start.max(self.geometry.small_zone().0);
        // A huge page behind a smaller extent would belong to its neighbours, too.
        if start < end && self.geometry.has_huge_extents() {
            self.span.advise_huge(start as usize, (end - start) as usize);
        }
    }
}

/// The fault for a failed mapping call.
pub(crate) fn mapping_fault(e: Errno, path: &Path) -> Fault {
    match e {
        Errno::NOMEM => Fault::TooManyMappings,
        e => Fault::io("map", path, e),
    }
}
