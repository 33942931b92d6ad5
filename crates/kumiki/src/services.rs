//! What every rank does for the others, whatever it is doing itself: the table of services that a world is made with.

use crate::{comm, data};
use kumiki_mem::Service;

/// By number: that of a service is where its module has it.
pub(crate) static SERVICES: &[Service] = &[
    Service { name: "heap", serve: data::heap::serve },
    Service { name: "vector", serve: data::serve_vector },
    Service { name: "deque", serve: data::serve_deque },
    Service { name: "table", serve: data::serve_table },
    Service { name: "list", serve: data::serve_list },
    Service { name: "comm", serve: comm::serve },
    Service { name: "collective", serve: comm::serve_collective },
];

const _: () = assert!(data::HEAP == 0 && data::VECTOR == 1 && data::DEQUE == 2);
const _: () = assert!(data::TABLE == 3 && data::LIST == 4 && comm::COMM == 5 && comm::COLLECTIVE == 6);
