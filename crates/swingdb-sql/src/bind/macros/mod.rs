//! CREATE MACRO: names for expressions and queries that have parameters.
//!
//! A macro is kept as text, as a view is. [`expand`] puts what it stands for in the place of each
//! call before anything else is done with a statement, so that all other rewrites, and the engine,
//! see ordinary SQL. A call is expanded from the inside out:
//!
//! 1. the arguments, with the names of the statement that calls;
//! 2. the body, with the names of the macro's own database, its schema first;
//! 3. the arguments are put in the body for its parameters, all at once ([`substitute`]).
//!
//! So no name of an argument is taken for a parameter or for a macro of the body. Views keep calls
//! as they are written; defaults and CHECK conditions keep what the macro stood for.
//!
//! | module | |
//! |---|---|
//! | [`text::macros`](crate::text::macros) | the statements |
//! | `ddl::macros` of `swingdb` | CREATE, DROP, and what may be created |
//! | [`expand`] | finding calls, and putting bodies in their place |
//! | [`call`] | which argument is for which parameter |
//! | [`substitute`] | putting arguments in a body |
//! | `show::macros` of `swingdb` | SHOW MACROS, SHOW CREATE MACRO |

pub mod call;
pub mod expand;
pub mod known;
pub(crate) mod substitute;
