//! What the memory of an area is made of.

/// What the memory of an area is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// What the namespace, else [`crate::BACKING_VARIABLE`] says; else a file as long as there is
    /// room, and a memfd from then on.
    #[default]
    Auto,
    /// A sparse file in the area's folder.
    File,
    /// A sealed memfd: it lives as long as a process has it open.
    Memfd,
}
