//! What a device is like: measured once, saved, and used by all that read from it.

mod profile;

pub use profile::{
    DeviceId, DeviceProfile, Domains, Latency, MAX_CHUNK_BYTES, MAX_DOMAINS, PROFILE_NAME,
    ProfileError,
};
