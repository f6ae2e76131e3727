//! Arbitrary bytes for every decoder of the log's files, whose checksums are passed by: an error,
//! or something that is written and read as the same.

use crate::log::codec::Reader;
use crate::log::format::BlockHeader;
use crate::log::root::Root;
use crate::log::state::{Delta, State};
use crate::profile::DeviceProfile;

/// Gives the bytes to the decoder that the first one names.
///
/// # Panics
/// If what was decoded is not decoded again from its own encoding.
pub fn decode_anything(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else { return };
    match which % 4 {
        0 => {
            if let Some(state) = State::decode(bytes) {
                assert_eq!(State::decode(&state.encode()), Some(state));
            }
        }
        1 => {
            if let Some(delta) = Delta::decode(bytes) {
                assert_eq!(Delta::decode(&delta.encode()), Some(delta.clone()));
                // It may fit the state before it or not.
                let mut state = State::default();
                let _ = state.apply(&delta, &mut Vec::new());
            }
        }
        2 => {
            let root = Root::decode_body(&mut Reader::new(bytes));
            if let Some(root) = root.filter(Root::is_possible) {
                assert_eq!(Root::decode(&root.encode()), Ok(root));
            }
            let _ = Root::decode(bytes);
        }
        _ => {
            if let Some(header) = BlockHeader::decode(bytes) {
                assert_eq!(BlockHeader::decode(&header.encode()), Some(header));
            }
        }
    }
}

/// Gives the bytes to the decoder of a journal's commits, behind their checksum.
///
/// # Panics
/// If a commit that was decoded is another one when it is written again.
pub fn decode_any_commit(bytes: &[u8]) {
    crate::log::journal::decode_any_commit(bytes);
}

/// Gives the bytes to the reader of saved device profiles.
///
/// # Panics
/// If a profile that was read is another one when it is written again.
pub fn decode_any_profile(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(profile) = DeviceProfile::from_text(&text) {
        assert_eq!(DeviceProfile::from_text(&profile.to_text()).ok(), Some(profile));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::format::Piece;
    use crate::log::state::{FileFacts, FileKind};
    use crate::units::{Epoch, FileId, Generation, RecordId};

    /// Good bytes of each decoder, to begin from.
    fn seeds() -> Vec<Vec<u8>> {
        let piece = Piece { file: FileId(1), offset: 64, len: 100, checksum: 7 };
        let facts = FileFacts { kind: FileKind::Data, generation: Generation(3) };
        let delta = Delta {
            epoch: Epoch(1),
            next_record: 9,
            root: Some(vec![1, 2]),
            files: vec![(FileId(1), facts)],
            added: vec![(RecordId(1), vec![piece, piece])],
            retain: vec!["kept".to_owned()],
            ..Delta::default()
        };
        let mut state = State::default();
        assert!(state.apply(&delta, &mut Vec::new()));
        let root = Root { manifest: vec![(piece, Generation(3))], ..Root::default() };
        // A root's body lies behind its magic and version.
        let body = root.encode()[12..4088].to_vec();
        let encoded = [state.encode(), delta.encode(), body];
        encoded
            .into_iter()
            .zip(0_u8..)
            .map(|(bytes, which)| [vec![which], bytes].concat())
            .collect()
    }

    #[test]
    fn changed_bytes_are_refused_or_decoded_for_good() {
        let mut random = fastrand::Rng::with_seed(21);
        let seeds = seeds();
        seeds.iter().for_each(|seed| decode_anything(seed));
        for _ in 0..if cfg!(miri) { 20 } else { 60_000 } {
            let mut bytes = seeds[random.usize(0..seeds.len())].clone();
            // Most of what counts lies at the begin.
            let reach = bytes.len().min(160);
            for _ in 0..random.usize(1..4) {
                bytes[random.usize(1..reach)] = random.u8(..);
            }
            if random.u32(0..4) == 0 {
                bytes.truncate(random.usize(1..=bytes.len()));
            }
            decode_anything(&bytes);
        }
    }

    #[test]
    fn changed_commits_and_profiles_are_refused_or_decoded_for_good() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let commit = [vec![0; 4], seeds()[1][1..].to_vec()].concat();
        let profile = DeviceProfile::default().to_text().into_bytes();
        for (good, decode) in
            [(commit, decode_any_commit as fn(&[u8])), (profile, decode_any_profile)]
        {
            decode(&good);
            for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
                let mut bytes = good.clone();
                for _ in 0..random.usize(1..4) {
                    let at = random.usize(..bytes.len());
                    bytes[at] = random.u8(..);
                }
                if random.u32(0..4) == 0 {
                    bytes.truncate(random.usize(..=bytes.len()));
                }
                decode(&bytes);
            }
        }
    }
}
