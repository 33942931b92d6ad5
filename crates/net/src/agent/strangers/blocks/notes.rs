//! What a process says at the roll call of the blocks, and what it is told.

use crate::codec::{Reader, Writer};
use crate::{Error, Result};

/// A build speaks one version, and says which.
pub(super) const VERSION: u32 = 1;
/// More blocks are a mistake, or a lie.
pub(super) const MOST_BLOCKS: u32 = 1 << 16;

/// "Here": which process of which block this is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Here {
    pub(super) version: u32,
    pub(super) block: u32,
    pub(super) blocks: u32,
    pub(super) rank: u32,
    pub(super) ranks: u32,
    /// A number that no other process has said: the same one may come again.
    pub(super) token: u64,
    /// Its machine and process, for a message.
    pub(super) name: String,
}

/// What it is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Told {
    /// Who has not come yet.
    Waiting { missing: String },
    /// It is noted; there is no room to wait here: come again after so long.
    Later { ms: u32, missing: String },
    /// It cannot be one of us.
    Refused { why: String },
    /// All have come: so many processes has each block, the hub listens at this port, and the key of the world is made of this.
    All { ranks: Vec<u32>, port: u32, nonce: [u8; 32] },
}

impl Here {
    pub(super) fn encode(&self) -> Vec<u8> {
        let Here { version, block, blocks, rank, ranks, token, name } = self;
        // The version first, for ever.
        let words = [version, block, blocks, rank, ranks];
        words
            .into_iter()
            .fold(Writer::new(1), |writer, word| writer.word(*word))
            .long(*token)
            .text(name)
            .finish()
    }

    /// A version that is not ours may say the rest in another way.
    pub(super) fn decode(message: &[u8]) -> Result<Here> {
        let mut reader = Reader::new(message);
        if reader.byte()? != 1 {
            return Err(Error::Refused("this is no answer to a roll call".into()));
        }
        let version = reader.word()?;
        let mut here =
            Here { version, block: 0, blocks: 0, rank: 0, ranks: 0, token: 0, name: String::new() };
        if version != VERSION {
            return Ok(here);
        }
        for word in [&mut here.block, &mut here.blocks, &mut here.rank, &mut here.ranks] {
            *word = reader.word()?;
        }
        (here.token, here.name) = (reader.long()?, reader.text()?);
        reader.end()?;
        Ok(here)
    }
}

impl Told {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Told::Waiting { missing } => Writer::new(1).text(missing),
            Told::Later { ms, missing } => Writer::new(2).word(*ms).text(missing),
            Told::Refused { why } => Writer::new(3).text(why),
            Told::All { ranks, port, nonce } => {
                Writer::new(4).list(ranks, |writer, count| writer.word(*count)).word(*port).fixed(nonce)
            }
        }
        .finish()
    }

    pub(super) fn decode(message: &[u8]) -> Result<Told> {
        let mut reader = Reader::new(message);
        let told = match reader.byte()? {
            1 => Told::Waiting { missing: reader.text()? },
            2 => Told::Later { ms: reader.word()?, missing: reader.text()? },
            3 => Told::Refused { why: reader.text()? },
            4 => {
                let ranks = reader.list(|reader| reader.word())?;
                Told::All { ranks, port: reader.word()?, nonce: reader.fixed()? }
            }
            _ => return Err(Error::Refused("this is no word of a roll call".into())),
        };
        reader.end()?;
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told() -> impl Strategy<Value = Told> {
        prop_oneof![
            ".{0,30}".prop_map(|missing| Told::Waiting { missing }),
            (any::<u32>(), ".{0,30}").prop_map(|(ms, missing)| Told::Later { ms, missing }),
            ".{0,30}".prop_map(|why| Told::Refused { why }),
            (proptest::collection::vec(any::<u32>(), 0..9), any::<u32>(), any::<[u8; 32]>())
                .prop_map(|(ranks, port, nonce)| Told::All { ranks, port, nonce }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_said_is_heard(words in any::<[u32; 4]>(), token: u64, name in ".{0,30}", told in told()) {
            let [block, blocks, rank, ranks] = words;
            let here = Here { version: VERSION, block, blocks, rank, ranks, token, name };
            prop_assert_eq!(Here::decode(&here.encode()).unwrap(), here.clone());
            prop_assert_eq!(Told::decode(&told.encode()).unwrap(), told.clone());
            for cut in 0..here.encode().len() {
                prop_assert!(Here::decode(&here.encode()[..cut]).is_err());
            }
            for cut in 0..told.encode().len() {
                prop_assert!(Told::decode(&told.encode()[..cut]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = (Here::decode(&bytes), Told::decode(&bytes));
        }
    }

    #[test]
    fn another_version_is_known_by_its_number_whatever_follows() {
        let strange = [&[1][..], &7u32.to_le_bytes(), b"what it says"].concat();
        assert_eq!(Here::decode(&strange).unwrap().version, 7);
    }
}
