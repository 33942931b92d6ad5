//! The operations of MGEN in one table: what each takes, which clauses it must and may have, and its algorithms.
//!
//! Parser, formatter, compiler and the reference page all stand on this table.

/// What stands right behind a verb.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// Nothing.
    Nothing,
    /// A number of bytes.
    Bytes,
    /// A time.
    Time,
    /// A handle, or `all`.
    Handle,
    /// The number of a flag.
    Flag,
}

impl Amount {
    /// What a user should write.
    pub(super) fn wanted(self) -> &'static str {
        match self {
            Amount::Nothing => "nothing",
            Amount::Bytes => "a number of bytes such as 64K",
            Amount::Time => "a time such as 10 us",
            Amount::Handle => "a handle or `all`",
            Amount::Flag => "the number of a flag",
        }
    }
}

/// An operation.
#[derive(PartialEq, Debug)]
pub struct Verb {
    /// Its name.
    pub name: &'static str,
    /// What stands behind it.
    pub amount: Amount,
    /// Clauses that it must have.
    pub must: &'static [&'static str],
    /// Clauses that it may have.
    pub may: &'static [&'static str],
    /// Whether it gives a handle.
    pub handle: bool,
    /// The algorithms of a collective; the first is the default.
    pub algorithms: &'static [&'static str],
    /// What it does, for the reference page.
    pub meaning: &'static str,
}

impl Verb {
    /// Every clause of it.
    pub(super) fn clauses(&self) -> impl Iterator<Item = &'static str> {
        self.must.iter().chain(self.may).copied()
    }

    /// Whether it is expanded into other operations.
    pub fn is_collective(&self) -> bool {
        !self.algorithms.is_empty()
    }
}

/// Words that a clause takes instead of a value.
pub(super) fn words(verb: &Verb, key: &str) -> &'static [&'static str] {
    match key {
        "by" => verb.algorithms,
        "order" => &["none", "all", "continue"],
        "from" if verb.name.ends_with("recv") => &["any"],
        _ => &[],
    }
}

/// Whether a clause takes nothing but one of its words.
pub(super) fn only_words(key: &str) -> bool {
    key == "by"
}

const fn verb(
    name: &'static str,
    amount: Amount,
    must: &'static [&'static str],
    meaning: &'static str,
) -> Verb {
    Verb { name, amount, must, may: &[], handle: false, algorithms: &[], meaning }
}

/// Every operation.
pub const VERBS: &[Verb] = &[
    Verb {
        may: &["tag", "gap", "order"],
        ..verb("send", Amount::Bytes, &["to"], "send a message; goes on when the buffer may be used again")
    },
    Verb {
        may: &["tag"],
        ..verb("recv", Amount::Bytes, &["from"], "receive a message; goes on when it is here")
    },
    Verb {
        may: &["tag", "gap", "order"],
        handle: true,
        ..verb("isend", Amount::Bytes, &["to"], "begin to send; gives a handle")
    },
    Verb {
        may: &["tag"],
        handle: true,
        ..verb("irecv", Amount::Bytes, &["from"], "begin to receive; gives a handle")
    },
    Verb {
        may: &["flag", "order", "gap"],
        handle: true,
        ..verb(
            "put",
            Amount::Bytes,
            &["to"],
            "write to another rank's memory; `flag` adds one to a flag there",
        )
    },
    Verb {
        may: &["order", "gap"],
        handle: true,
        ..verb("get", Amount::Bytes, &["from"], "read from another rank's memory")
    },
    Verb {
        may: &["flag", "order", "gap"],
        handle: true,
        ..verb(
            "copy",
            Amount::Bytes,
            &["from", "to"],
            "copy between the memories of two ranks, perhaps neither ours",
        )
    },
    Verb {
        may: &["order"],
        handle: true,
        ..verb("atomic", Amount::Nothing, &["on"], "an atomic operation on a word of another rank")
    },
    verb("wait", Amount::Handle, &[], "wait until an operation is complete, or all of them"),
    Verb {
        may: &["count"],
        ..verb(
            "await",
            Amount::Flag,
            &[],
            "wait until a flag of this rank has been raised so often (once), and lower it by as much",
        )
    },
    verb("compute", Amount::Time, &[], "compute for so long"),
    verb("step", Amount::Nothing, &[], "the end of a step: with `--sync-steps` the ranks meet here"),
    Verb {
        may: &["by"],
        algorithms: &["dissemination", "tree", "ideal"],
        ..verb("barrier", Amount::Nothing, &[], "wait until every rank is here")
    },
    Verb {
        may: &["by"],
        algorithms: &["binomial", "linear", "ring", "scatter-allgather"],
        ..verb("bcast", Amount::Bytes, &["from"], "from one rank to all")
    },
    Verb {
        may: &["by"],
        algorithms: &["binomial", "linear"],
        ..verb("reduce", Amount::Bytes, &["to"], "combine what all ranks have, at one")
    },
    Verb {
        may: &["by"],
        algorithms: &["recursive-doubling", "ring", "rabenseifner", "reduce-bcast"],
        ..verb("allreduce", Amount::Bytes, &[], "combine what all ranks have, at all")
    },
    Verb {
        may: &["by"],
        algorithms: &["ring", "bruck", "recursive-doubling"],
        ..verb("allgather", Amount::Bytes, &[], "what each rank has (so many bytes), to all")
    },
    Verb {
        may: &["by", "gap"],
        algorithms: &["pairwise", "xor", "spread", "bruck"],
        ..verb("alltoall", Amount::Bytes, &[], "so many bytes from each rank to each other")
    },
    Verb {
        may: &["by"],
        algorithms: &["binomial", "linear"],
        ..verb("scatter", Amount::Bytes, &["from"], "so many bytes from one rank to each")
    },
    Verb {
        may: &["by"],
        algorithms: &["binomial", "linear"],
        ..verb("gather", Amount::Bytes, &["to"], "so many bytes from each rank to one")
    },
];

/// The operation of this name.
pub(super) fn find(name: &str) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| verb.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_by_goes_with_algorithms() {
        for (i, verb) in VERBS.iter().enumerate() {
            assert!(VERBS[..i].iter().all(|other| other.name != verb.name), "{}", verb.name);
            assert_eq!(verb.is_collective(), verb.may.contains(&"by"), "{}", verb.name);
            assert!(!verb.meaning.is_empty());
        }
    }
}
