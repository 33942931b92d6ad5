//! Ranks, messages and the loop over events.
//!
//! | file | what |
//! |---|---|
//! | `rank` | what is known about one rank |

mod rank;

pub(crate) use rank::RankState;

use crate::{Error, Network, Options, Report, Workload};

/// Runs a workload on a network.
pub fn simulate(
    _network: &Network,
    _workload: &dyn Workload,
    _options: &Options<'_>,
) -> Result<Report, Error> {
    Err(Error::Options("no engine is built in yet".to_owned()))
}
