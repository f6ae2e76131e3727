//! Arbitrary bytes for every decoder of the log's files, whose checksums are passed by: an error,
//! or something that is written and read as the same.

use crate::log::codec::Reader;
use crate::log::format::BlockHeader;
use crate::log::root::Root;
use crate::log::state::{Delta, State};

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
}
