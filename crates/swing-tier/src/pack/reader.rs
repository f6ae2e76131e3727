//! Reading encoded bytes, of which nothing is trusted: [`Reader`].

/// Encoded bytes that no block was encoded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an encoded block is damaged: {what}")]
pub struct PackError {
    /// What is wrong with it.
    pub what: &'static str,
}

pub(super) type Result<T> = std::result::Result<T, PackError>;

pub(super) fn damaged(what: &'static str) -> PackError {
    PackError { what }
}

/// The rest of an encoded block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(damaged("it is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(damaged("it is too short"))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A length or a count.
    pub fn len(&mut self) -> Result<usize> {
        Ok(self.u32()? as usize)
    }

    /// That nothing is left.
    pub fn finish(self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(damaged("it is too long")) }
    }
}
