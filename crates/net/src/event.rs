//! Events for whoever subscribes to the crate `tracing`: what a person who looks for the cause of something would like to know. With the
//! feature `tracing` off there is nothing of it in the program.
//!
//! They are few (a rank joins and leaves, a connection opens and closes, a peer is lost, an operation fails, a barrier is broken): all
//! messages are in the file of `kumiki run --trace`. A subscriber runs wherever something happens, so it must not use the world.

#[cfg(feature = "tracing")]
#[doc(hidden)]
pub use tracing;

/// Tells subscribers: a level (`debug`, `info`, `warn`, `error`), fields, and a message, as the macros of `tracing` take them. Of a crate
/// that has a feature `tracing` of its own.
#[macro_export]
macro_rules! event {
    ($level:ident, $($rest:tt)*) => {
        #[cfg(feature = "tracing")]
        $crate::event::tracing::$level!(target: "kumiki", $($rest)*);
    };
}
