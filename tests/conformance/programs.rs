use crate::stage::Stage;
pub(crate) fn programs(_: &Stage) {}
