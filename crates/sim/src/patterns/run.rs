//! Running a pattern. Where steps are synchronised, the network is empty between them, so each is a run of its own: they fill all cores.

use super::{OneStep, Pattern, Prepared};
use crate::{simulate, Error, Network, Options, Report};

/// Runs a pattern on a network.
pub fn run_pattern(network: &Network, pattern: &Pattern, options: &Options<'_>) -> Result<Report, Error> {
    let prepared = pattern.prepare(options.sync_steps)?;
    simulate(network, &prepared, options)
}

impl Prepared {
    /// One of the chosen steps as a workload of its own.
    #[allow(dead_code)]
    fn one_step(&self, index: usize) -> OneStep<'_> {
        OneStep { prepared: self, index }
    }
}
