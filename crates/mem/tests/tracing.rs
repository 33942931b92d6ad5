//! What a subscriber of `tracing` is told, with that feature.
#![cfg(feature = "tracing")]

use kumiki_mem::{GlobalAddress, GlobalPtr, World};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps what it is told, as level and text.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<(Level, String)>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!("{}={value:?};", field.name());
    }
}

impl Subscriber for Diary {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "kumiki"
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push((*event.metadata().level(), text.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_subscriber_is_told_who_joins_what_fails_and_who_leaves() {
    let diary = Diary::default();
    tracing::subscriber::with_default(diary.clone(), || {
        let world = World::init().unwrap();
        let nowhere = GlobalPtr::<u64>::from_address(GlobalAddress::NULL);
        assert!(world.get(nowhere).is_err());
        world.finalize().unwrap();
    });
    let told = diary.0.lock().unwrap();
    let at = |level: Level, words: &str| {
        told.iter().position(|(at, text)| *at == level && text.contains(words)).unwrap_or_else(|| {
            panic!("nobody told {words}: {told:?}");
        })
    };
    let joined = at(Level::INFO, "message=joined the world;rank=0;ranks=1;nodes=1;");
    let failed = at(Level::WARN, "message=an operation failed;rank=0;error=");
    let left = at(Level::INFO, "message=leaves the world;rank=0;together=true;");
    assert!(joined < failed && failed < left, "{told:?}");
}
