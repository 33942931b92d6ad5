//! Pictures of a simulation: how busy links were, and what each rank did when.

use crate::chart::{Grain, HeatMap, Ruler};
use kumiki_sim::{Network, Report, Topology};
use std::io::Write;
use std::path::Path;

/// The busiest link of each router as a colour. A grid of more than two dimensions is laid out in the plane: its first,
/// third, fifth dimension from left to right, the others from top to bottom.
pub(crate) fn heat_map(report: &Report, network: &Network, path: &Path) -> Result<(), String> {
    busiest_links(report, network).save(path)
}

fn busiest_links(report: &Report, network: &Network) -> HeatMap {
    let mut busiest = vec![0.0; network.routers() as usize];
    for link in &report.links {
        if let Some(known) = busiest.get_mut(link.from as usize) {
            *known = f64::max(*known, 100.0 * report.utilisation(link));
        }
    }
    let plan = Plan::of(network, busiest.len());
    let mut values = vec![f64::NAN; plan.width * plan.height];
    for (router, &busy) in busiest.iter().enumerate() {
        values[plan.place(router)] = busy;
    }
    HeatMap {
        title: format!("{} on {}", report.workload, report.network),
        subtitle: format!("busiest link of each router, in per cent of {}", report.time),
        width: plan.width,
        height: plan.height,
        values,
        grain: Grain::Cells,
        top: busiest.iter().copied().fold(0.0, f64::max),
        unit: "%",
        columns: plan.columns,
        rows: plan.rows,
        rows_of_ranks: Vec::new(),
    }
}

/// Where routers are in the plane.
struct Plan {
    /// The sizes of a grid; none where routers just follow each other.
    sizes: Vec<usize>,
    width: usize,
    height: usize,
    columns: Ruler,
    rows: Ruler,
}

impl Plan {
    fn of(network: &Network, routers: usize) -> Plan {
        match &network.topology {
            Topology::Grid(dimensions) => {
                let sizes: Vec<usize> = dimensions.iter().map(|dimension| dimension.size as usize).collect();
                let width = sizes.iter().step_by(2).product();
                let height = sizes.iter().skip(1).step_by(2).product();
                let ruler = |first: usize| Ruler { name: along(sizes.len(), first), step: 1 };
                let (columns, rows) = (ruler(1), ruler(2));
                Plan { width, height, columns, rows, sizes }
            }
            _ => {
                let width = (routers as f64 * 2.0).sqrt().ceil().max(1.0) as usize;
                let columns = Ruler { name: "router, counted on from the first of its row".into(), step: 1 };
                let rows = Ruler { name: "first router of the row".into(), step: width };
                Plan { sizes: Vec::new(), width, height: routers.div_ceil(width).max(1), columns, rows }
            }
        }
    }

    fn place(&self, router: usize) -> usize {
        if self.sizes.is_empty() {
            router
        } else {
            grid_place(&self.sizes, router, self.width)
        }
    }
}

/// What lies along a side of the picture of a grid: every second dimension, from the `first` on.
fn along(dimensions: usize, first: usize) -> String {
    let numbers: Vec<String> = (first..=dimensions).step_by(2).map(|number| number.to_string()).collect();
    match numbers.len() {
        0 => String::new(),
        1 => format!("place in dimension {}", numbers[0]),
        _ => format!("place in dimensions {}, the first of them fastest", numbers.join(", ")),
    }
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
    use kumiki_sim::{LinkUse, Time};

    #[test]
    fn every_router_has_its_own_place() {
        let sizes = [3, 4, 2, 5];
        let mut places: Vec<usize> = (0..120).map(|router| grid_place(&sizes, router, 6)).collect();
        places.sort_unstable();
        assert_eq!(places, (0..120).collect::<Vec<_>>());
        assert_eq!(grid_place(&[4, 4], 5, 4), 5);
    }

    fn report(links: &[(u32, u32)]) -> Report {
        let link = |&(from, busy_us): &(u32, u32)| LinkUse {
            from,
            to: 0,
            lane: 0,
            dimension: None,
            rising: true,
            bytes: 1,
            busy: Time::from_ps(u64::from(busy_us) * 1_000_000),
        };
        Report {
            time: Time::from_ps(1_000_000_000),
            links: links.iter().map(link).collect(),
            ..Report::default()
        }
    }

    #[test]
    fn the_heat_map_has_as_many_cells_as_there_are_routers() {
        for (net, routers) in [
            ("torus:3x5", 15),
            ("fattree:levels=2,arity=4,taper=2", 6),
            ("dragonfly:groups=5,routers=2,nodes=2,globals=2", 10),
            ("mesh:7", 7),
        ] {
            let network = Network::parse_short(net).unwrap_or_else(|error| panic!("{net}: {error}"));
            let map = busiest_links(&report(&[(1, 20)]), &network);
            let cells = map.values.iter().filter(|value| !value.is_nan()).count();
            assert_eq!((cells, network.routers()), (routers, routers as u64), "{net}: {map:?}");
        }
    }

    #[test]
    fn the_heat_map_reaches_from_zero_to_the_busiest_link_and_says_what_its_sides_are() {
        let map = busiest_links(&report(&[(1, 20), (1, 30), (14, 10)]), &Network::torus(&[3, 5]));
        assert_eq!((map.top, map.values[1], map.values[14], map.values[0]), (3.0, 3.0, 1.0, 0.0));
        assert_eq!((&*map.columns.name, &*map.rows.name), ("place in dimension 1", "place in dimension 2"));
        let map = busiest_links(&report(&[]), &Network::torus(&[2, 2, 2, 2]));
        assert_eq!(map.rows.name, "place in dimensions 2, 4, the first of them fastest");
    }
}
