//! The immutable description of one published state: which file ranges make up the area, whom it
//! depends on, and the client's root.
//!
//! The layout is written down in `docs/format.md`. A manifest is hostile until [`Manifest::decode`]
//! has checked every field: another process wrote it. What is checked against the outside (file
//! sizes, identities) is checked where files are opened.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::model::error::{Fault, Result};
use crate::model::geometry::{Geometry, HUGE_PAGE, MAX_PLANES, SMALL_EXTENT};
use crate::model::name::{AreaName, MAX_NAME_BYTES};
use crate::model::runs::Run;
use crate::model::units::{AreaId, AreaOffset, ByteLen, Epoch};

/// The longest payload (the client's root) of a manifest.
pub const MAX_PAYLOAD_BYTES: usize = 4096;
/// The most areas one area may depend on, itself included.
pub(crate) const MAX_SOURCES: usize = 1024;
/// The most runs of one manifest; far above `vm.max_map_count`.
pub(crate) const MAX_RUNS: usize = 1 << 20;
/// The longest manifest that is read.
pub(crate) const MAX_MANIFEST_BYTES: u64 = (HEADER_BYTES
    + MAX_RUNS * RUN_BYTES
    + MAX_SOURCES * (SOURCE_BYTES + MAX_NAME_BYTES)
    + MAX_PAYLOAD_BYTES) as u64;

/// Length of the fixed part.
pub(crate) const HEADER_BYTES: usize = 128;
const RUN_BYTES: usize = 32;
const SOURCE_BYTES: usize = 40;
/// What a complete manifest begins with.
pub(crate) const MAGIC: [u8; 8] = *b"SWINGMF\0";
/// What one begins with whose state may still be stored to.
pub(crate) const COMING: [u8; 8] = *b"SWINGMC\0";
/// What one begins with that is being made current, and says no more before it is.
pub(crate) const FILLING: [u8; 8] = *b"SWINGML\0";
/// What it begins with is one word, which is stored at once.
pub(crate) const WORD_BYTES: usize = MAGIC.len();
/// A manifest made ahead is filled up with zeros to this length, unless it is longer.
pub(crate) const AHEAD_BYTES: usize = 4096;
const VERSION: u32 = 4;
const HEADER_SUM_AT: usize = HEADER_BYTES - 8;

/// Why a state was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Survives a crash of the owner; invisible to hookers.
    Committed,
    /// Both of it: survives, and can be hooked.
    Shared,
    /// Anonymous: reachable only through a lease taken before anybody else could see it.
    Anonymous,
}

/// One area the state consists of; index 0 is the area itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceEntry {
    pub area: AreaId,
    /// The manifest of that area that is depended on; for the area itself the manifest's own epoch.
    pub epoch: Epoch,
    /// Identity of its memory file; zeros when the area has no memory of its own.
    pub dev: u64,
    pub ino: u64,
    pub name: Option<AreaName>,
}

impl SourceEntry {
    fn has_memory(&self) -> bool {
        (self.dev, self.ino) != (0, 0)
    }
}

/// A decoded and checked manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub id: AreaId,
    pub epoch: Epoch,
    pub kind: Kind,
    pub geometry: Geometry,
    /// Where the owner had the area mapped.
    pub base: u64,
    /// When it was published, in nanoseconds since 1970.
    pub published_ns: u64,
    pub runs: Vec<Run>,
    pub sources: Vec<SourceEntry>,
    pub payload: Vec<u8>,
}

/// What the fixed part of a manifest says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub id: AreaId,
    pub epoch: Epoch,
    pub kind: Kind,
    pub geometry: Geometry,
    pub base: u64,
    pub published_ns: u64,
    pub total: u64,
    sources: u32,
    runs: u32,
    names: u32,
    payload: u32,
    body_sum: u64,
}

/// Changes whenever the meaning of a byte changes: two builds that disagree refuse each other's
/// manifests.
fn fingerprint() -> u64 {
    let mut bytes = Vec::new();
    let sizes = [HEADER_BYTES as u64, RUN_BYTES as u64, SOURCE_BYTES as u64];
    for n in sizes.into_iter().chain([SMALL_EXTENT.0, HUGE_PAGE, u64::from(VERSION)]) {
        bytes.extend_from_slice(&n.to_le_bytes());
    }
    xxh3_64(&bytes)
}

impl Manifest {
    /// Device and inode of the area's own memory, if it has any.
    pub(crate) fn own_identity(&self) -> Option<(u64, u64)> {
        let own = &self.sources[0];
        own.has_memory().then_some((own.dev, own.ino))
    }

    /// The bytes of a manifest. The caller has made sure of the limits.
    pub(crate) fn encode(&self) -> Vec<u8> {
        assert!(
            self.payload.len() <= MAX_PAYLOAD_BYTES && self.runs.len() <= MAX_RUNS,
            "publishes refuse what is longer"
        );
        assert!((1..=MAX_SOURCES).contains(&self.sources.len()), "the area itself is source 0");
        let own = &self.sources[0];
        assert_eq!((own.area, own.epoch), (self.id, self.epoch), "the area itself is source 0");
        let body = self.runs.len() * RUN_BYTES + self.sources.len() * (SOURCE_BYTES + 16);
        let mut out = Vec::with_capacity(HEADER_BYTES + body + self.payload.len());
        out.resize(HEADER_BYTES, 0);
        for r in &self.runs {
            for n in [r.start, r.len, r.file_offset, u64::from(r.source)] {
                out.extend_from_slice(&n.to_le_bytes());
            }
        }
        let mut names = Vec::new();
        for s in &self.sources {
            let name = s.name.as_ref().map_or("", AreaName::as_str).as_bytes();
            for n in [s.area.0, s.epoch.0, s.dev, s.ino, name.len() as u64] {
                out.extend_from_slice(&n.to_le_bytes());
            }
            names.extend_from_slice(name);
        }
        out.extend_from_slice(&names);
        out.extend_from_slice(&self.payload);
        let header =
            self.header_bytes(out.len() as u64, names.len() as u32, xxh3_64(&out[HEADER_BYTES..]));
        out[..HEADER_BYTES].copy_from_slice(&header);
        out
    }

    fn header_bytes(&self, total: u64, names: u32, body_sum: u64) -> [u8; HEADER_BYTES] {
        let mut h = [0u8; HEADER_BYTES];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            h[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&MAGIC);
        put(&VERSION.to_le_bytes());
        let kind: u32 = match self.kind {
            Kind::Committed => 1,
            Kind::Shared => 2,
            Kind::Anonymous => 3,
        };
        put(&kind.to_le_bytes());
        let wide = [
            fingerprint(),
            total,
            self.id.0,
            self.epoch.0,
            self.geometry.reserve().0,
            self.geometry.small_zone().0,
            self.base,
            self.published_ns,
        ];
        wide.iter().for_each(|n| put(&n.to_le_bytes()));
        let counts =
            [self.sources.len() as u32, self.runs.len() as u32, names, self.payload.len() as u32];
        counts.iter().for_each(|n| put(&n.to_le_bytes()));
        put(&body_sum.to_le_bytes());
        put(&self.geometry.data_extent().0.to_le_bytes());
        assert!(at <= HEADER_SUM_AT, "the checksum is behind all fields");
        let sum = xxh3_64(&h[..HEADER_SUM_AT]);
        h[HEADER_SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        h
    }

    /// Checks and decodes; every field of the result can be used without further checks of its own.
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let bad = |detail: String| Fault::corrupt(path, detail);
        let h = Header::decode(bytes, path)?;
        let (bytes, filling) = bytes.split_at(bytes.len().min(h.total as usize));
        let filled = filling.is_empty() || bytes.len() + filling.len() == AHEAD_BYTES;
        // Its last word may be the stamp of a notification.
        let zeros = filling.len().checked_sub(WORD_BYTES).unwrap_or(filling.len());
        let filled = filled && filling[..zeros].iter().all(|byte| *byte == 0);
        if h.total != bytes.len() as u64 || !filled {
            let len = bytes.len() + filling.len();
            return Err(bad(format!("{len} bytes long, {} expected", h.total)));
        }
        let body = &bytes[HEADER_BYTES..];
        if xxh3_64(body) != h.body_sum {
            return Err(bad("the checksum of the body does not match".into()));
        }
        let (run_bytes, rest) = body.split_at(h.runs as usize * RUN_BYTES);
        let (source_bytes, rest) = rest.split_at(h.sources as usize * SOURCE_BYTES);
        let (names, payload) = rest.split_at(h.names as usize);
        let sources = decode_sources(source_bytes, names, &h).map_err(bad)?;
        let runs = decode_runs(run_bytes, &h).map_err(bad)?;
        if let Some(run) = runs.iter().find(|run| !sources[run.source as usize].has_memory()) {
            return Err(bad(format!("the run at {:#x} lies in an area without memory", run.start)));
        }
        Ok(Self {
            id: h.id,
            epoch: h.epoch,
            kind: h.kind,
            geometry: h.geometry,
            base: h.base,
            published_ns: h.published_ns,
            runs,
            sources,
            payload: payload.to_vec(),
        })
    }
}

impl Header {
    /// Checks and decodes the fixed part; `bytes` may go on beyond it.
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let bad = |detail: &str| Err(Fault::corrupt(path, detail));
        if bytes.len() < HEADER_BYTES {
            return bad("shorter than the header of a manifest");
        }
        let h = &bytes[..HEADER_BYTES];
        let u32_at = |at: usize| u32::from_le_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if h[..8] != MAGIC {
            return bad("not a manifest (wrong magic)");
        }
        if u32_at(8) != VERSION || u64_at(16) != fingerprint() {
            return bad("written by another version of this library, with another layout");
        }
        if xxh3_64(&h[..HEADER_SUM_AT]) != u64_at(HEADER_SUM_AT) {
            return bad("the checksum of the header does not match");
        }
        let kind = match u32_at(12) {
            1 => Kind::Committed,
            2 => Kind::Shared,
            3 => Kind::Anonymous,
            _ => return bad("an unknown kind of publish"),
        };
        let (reserve, small, extent) = (u64_at(48), u64_at(56), u64_at(104));
        let geometry = Geometry::with_extent(ByteLen(reserve), ByteLen(small), ByteLen(extent));
        let Some(geometry) = geometry else {
            return bad("an impossible geometry");
        };
        let header = Self {
            id: AreaId(u64_at(32)),
            epoch: Epoch(u64_at(40)),
            kind,
            geometry,
            base: u64_at(64),
            published_ns: u64_at(72),
            total: u64_at(24),
            sources: u32_at(80),
            runs: u32_at(84),
            names: u32_at(88),
            payload: u32_at(92),
            body_sum: u64_at(96),
        };
        header.check_counts(path)?;
        Ok(header)
    }

    fn check_counts(&self, path: &Path) -> Result<()> {
        let (sources, runs) = (self.sources as usize, self.runs as usize);
        let within = (1..=MAX_SOURCES).contains(&sources)
            && runs <= MAX_RUNS
            && self.names as usize <= sources * MAX_NAME_BYTES
            && self.payload as usize <= MAX_PAYLOAD_BYTES;
        if !within || self.id.0 == 0 || !Epoch::POSSIBLE.contains(&self.epoch) {
            return Err(Fault::corrupt(path, "a count or number outside its limits"));
        }
        let tables = runs * RUN_BYTES + sources * SOURCE_BYTES;
        let total = HEADER_BYTES + tables + self.names as usize + self.payload as usize;
        if total as u64 != self.total {
            return Err(Fault::corrupt(path, "the parts do not add up to the whole"));
        }
        Ok(())
    }
}

fn words<const N: usize>(record: &[u8]) -> [u64; N] {
    let mut out = [0; N];
    for (word, bytes) in out.iter_mut().zip(record.chunks_exact(8)) {
        let mut le = [0; 8];
        le.copy_from_slice(bytes);
        *word = u64::from_le_bytes(le);
    }
    out
}

fn decode_sources(bytes: &[u8], names: &[u8], h: &Header) -> Result<Vec<SourceEntry>, String> {
    let mut out: Vec<SourceEntry> = Vec::with_capacity(h.sources as usize);
    let mut rest = names;
    for (i, record) in bytes.chunks_exact(SOURCE_BYTES).enumerate() {
        let [area, epoch, dev, ino, name_len] = words::<5>(record);
        if name_len > rest.len() as u64 {
            return Err(format!("the name of source {i} is longer than the names"));
        }
        let (name, tail) = rest.split_at(name_len as usize);
        rest = tail;
        let name = match std::str::from_utf8(name) {
            Ok("") => None,
            Ok(text) => Some(AreaName::new(text).map_err(|e| format!("source {i}: {e}"))?),
            Err(_) => return Err(format!("the name of source {i} is not UTF-8")),
        };
        let entry = SourceEntry { area: AreaId(area), epoch: Epoch(epoch), dev, ino, name };
        // A later source may be the area itself, at an older epoch: memory cloned within one area.
        let own = entry.area == h.id && entry.epoch == h.epoch;
        let later = entry.area == h.id && entry.epoch > h.epoch;
        if (i == 0) != own || later || area == 0 || !Epoch::POSSIBLE.contains(&entry.epoch) {
            return Err(format!("source {i} contradicts the area's own identity"));
        }
        if out.iter().any(|o| o.area == entry.area && o.epoch == entry.epoch) {
            return Err(format!("source {i} is listed twice"));
        }
        out.push(entry);
    }
    if !rest.is_empty() {
        return Err("there are names that belong to no source".into());
    }
    Ok(out)
}

fn decode_runs(bytes: &[u8], h: &Header) -> Result<Vec<Run>, String> {
    let g = &h.geometry;
    let mut out = Vec::with_capacity(h.runs as usize);
    let mut last_end = 0;
    for (i, record) in bytes.chunks_exact(RUN_BYTES).enumerate() {
        let [start, len, file_offset, source] = words::<4>(record);
        let fail = |what: &str| Err(format!("run {i} {what}"));
        let Some(end) = start.checked_add(len) else {
            return fail("overflows");
        };
        if len == 0 || end > g.reserve().0 {
            return fail("is empty or outside the area");
        }
        if start < last_end {
            return fail("overlaps the one before, or is out of order");
        }
        if !g.is_boundary(AreaOffset(start)) || !g.is_boundary(AreaOffset(end)) {
            return fail("is not made of whole extents");
        }
        // A part in the data zone needs congruence to a huge page, all else to a small extent.
        let data_align = g.data_extent().0.min(HUGE_PAGE);
        let align = if end > g.small_zone().0 { data_align } else { SMALL_EXTENT.0 };
        if file_offset % SMALL_EXTENT.0 != 0 || (file_offset ^ start) % align != 0 {
            return fail("is not aligned in its file");
        }
        let limit = u64::from(MAX_PLANES) * crate::model::geometry::MAX_RESERVE.0;
        if file_offset > limit || file_offset + len > limit {
            return fail("lies beyond every possible file");
        }
        if source >= u64::from(h.sources) {
            return fail("names a source that is not listed");
        }
        last_end = end;
        out.push(Run { start, len, source: source as u32, file_offset });
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
