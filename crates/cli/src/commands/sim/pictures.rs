//! Pictures of a simulation: how busy links were, and what each rank did when.

use crate::chart::HeatMap;
use kumiki_sim::{Network, Report, Topology};
use std::io::Write;
use std::path::Path;

/// The busiest link of each router as a colour. A grid of more than two dimensions is laid out in the plane: its first,
/// third, fifth dimension from left to right, the others from top to bottom.
pub(crate) fn heat_map(report: &Report, network: &Network, path: &Path) -> Result<(), String> {
    let mut busiest: Vec<f64> = Vec::new();
    for link in &report.links {
        let router = link.from as usize;
        if busiest.len() <= router {
            busiest.resize(router + 1, 0.0);
        }
        busiest[router] = busiest[router].max(100.0 * report.utilisation(link));
    }
    let (width, height, place): (usize, usize, Box<dyn Fn(usize) -> usize>) = match &network.topology {
        Topology::Grid(dimensions) => {
            let sizes: Vec<usize> = dimensions.iter().map(|dimension| dimension.size as usize).collect();
            let width: usize = sizes.iter().step_by(2).product();
            let height: usize = sizes.iter().skip(1).step_by(2).product();
            (width, height, Box::new(move |router| grid_place(&sizes, router, width)))
        }
        _ => {
            let width = (busiest.len() as f64 * 2.0).sqrt().ceil().max(1.0) as usize;
            (width, busiest.len().div_ceil(width).max(1), Box::new(|router| router))
        }
    };
    let mut values = vec![0.0; width * height];
    for (router, busy) in busiest.iter().enumerate() {
        if let Some(value) = values.get_mut(place(router)) {
            *value = *busy;
        }
    }
    HeatMap {
        title: format!("{} on {}", report.workload, report.network),
        subtitle: format!("busiest link of each router, in per cent of {}", report.time),
        width,
        height,
        values: &values,
        range: (0.0, 100.0),
        unit: "%",
        rows_of_ranks: &[],
    }
    .save(path)
}

/// Where a router of a grid is in the plane.
fn grid_place(sizes: &[usize], router: usize, width: usize) -> usize {
    let (mut left, mut x, mut y, mut across, mut down) = (router, 0, 0, 1, 1);
    for (number, size) in sizes.iter().enumerate() {
        let at = left % size;
        left /= size;
        if number % 2 == 0 {
            x += at * across;
            across *= size;
        } else {
            y += at * down;
            down *= size;
        }
    }
    y * width + x
}

/// What each rank did when, as Chrome and Perfetto read it: a process a rank, its operations as asynchronous events.
pub(crate) fn time_line(report: &Report, path: &Path) -> Result<(), String> {
    let written = kumiki_run::system::replace(path, |out| write_time_line(report, out));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn write_time_line(report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "[")?;
    for span in &report.timeline {
        writeln!(
            out,
            "{{\"ph\":\"X\",\"name\":\"{}\",\"pid\":{},\"tid\":0,\"ts\":{:.6},\"dur\":{:.6}}},",
            span.what,
            span.rank,
            span.start.as_us(),
            (span.end - span.start).as_us()
        )?;
    }
    for operation in &report.operations {
        let (name, rank, id) = (operation.kind.name(), operation.rank, operation.handle.0);
        let peer = operation.peer.map_or("null".to_string(), |peer| peer.to_string());
        let common = format!(
            "\"cat\":\"operation\",\"name\":\"{name}\",\"pid\":{rank},\"tid\":1,\"id\":\"{rank}.{id}\""
        );
        writeln!(
            out,
            "{{\"ph\":\"b\",{common},\"ts\":{:.6},\"args\":{{\"peer\":{peer},\"bytes\":{}}}}},",
            operation.issued.as_us(),
            operation.bytes
        )?;
        writeln!(out, "{{\"ph\":\"e\",{common},\"ts\":{:.6}}},", operation.completed.as_us())?;
    }
    writeln!(
        out,
        "{{\"ph\":\"M\",\"name\":\"trace_name\",\"pid\":0,\"args\":{{\"name\":\"kumiki sim\"}}}}\n]"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_router_has_its_own_place() {
        let sizes = [3, 4, 2, 5];
        let mut places: Vec<usize> = (0..120).map(|router| grid_place(&sizes, router, 6)).collect();
        places.sort_unstable();
        assert_eq!(places, (0..120).collect::<Vec<_>>());
        assert_eq!(grid_place(&[4, 4], 5, 4), 5);
    }
}
