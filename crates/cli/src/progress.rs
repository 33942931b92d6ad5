//! Bars on the terminal that say how far a command is. Where standard error is no terminal there is nothing to see of them.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on standard error, if it is wanted. The template is that of indicatif.
pub(crate) fn bar(length: u64, template: &str, wanted: bool) -> ProgressBar {
    let target = if wanted { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.tick();
    bar
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_bar_that_nobody_wants_is_not_drawn() {
        assert!(super::bar(10, "{bar} {pos}/{len}", false).is_hidden());
    }
}
