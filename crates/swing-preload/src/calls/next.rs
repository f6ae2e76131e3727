//! The functions of the C library that this one stands before: `own!`.

/// The C library's own function of a name and a signature.
macro_rules! own {
    ($text:literal: $name:ident($($kind:ty),* $(,)?) -> $result:ty) => {{
        static NEXT: swing_calls::Next = swing_calls::Next::new($text);
        type Call = unsafe extern "C-unwind" fn($($kind),*) -> $result;
        // SAFETY: the C library's function of this name has this signature.
        unsafe { std::mem::transmute::<usize, Call>(NEXT.get()) }
    }};
}

pub(super) use own;
