//! A recorded sequence of allocations, as `bench/record_malloc.py` writes it.
//!
//! `SWTRACE1`, then for each event a number: four times the slot, plus 0 for an allocation, 1 for a
//! free, 2 for a reallocation of the slot's block; of the first and the last follows the length as
//! a second number. Numbers are written seven bits a byte, the lowest first, the high bit says that
//! another byte follows.

/// What the program did to the block in a slot.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Allocate { slot: usize, len: u64 },
    Free { slot: usize },
    Reallocate { slot: usize, len: u64 },
}

/// Slots that a trace uses.
pub fn slots(events: &[Event]) -> usize {
    let slot = |event: &Event| match *event {
        Event::Allocate { slot, .. } | Event::Free { slot } | Event::Reallocate { slot, .. } => {
            slot
        }
    };
    events.iter().map(slot).max().map_or(0, |most| most + 1)
}

fn number(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or("the trace ends within a number")?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("a number of the trace is too long".into())
}

/// Every event of a trace, each of which makes sense where it stands.
pub fn read(mut bytes: &[u8]) -> Result<Vec<Event>, String> {
    bytes = bytes.strip_prefix(b"SWTRACE1").ok_or("this is no trace")?;
    let (mut events, mut live) = (Vec::new(), Vec::new());
    while !bytes.is_empty() {
        let head = number(&mut bytes)?;
        let (slot, kind) = ((head >> 2) as usize, head & 3);
        if slot > live.len() {
            return Err(format!("slot {slot} comes before slot {}", live.len()));
        }
        if slot == live.len() {
            live.push(false);
        }
        if live[slot] == (kind == 0) {
            return Err(format!("event {} does not fit its slot {slot}", events.len()));
        }
        events.push(match kind {
            0 => Event::Allocate { slot, len: number(&mut bytes)? },
            1 => Event::Free { slot },
            2 => Event::Reallocate { slot, len: number(&mut bytes)? },
            _ => return Err(format!("there is no event of kind {kind}")),
        });
        live[slot] = kind != 1;
    }
    Ok(events)
}
