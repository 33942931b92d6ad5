//! What runs now as JSON.

use super::waits;
use super::worlds::{phase, standing, what, Member, Now, World};
use serde_json::{json, Value};

pub(super) fn of(now: &Now) -> Value {
    let worlds: Vec<Value> = now.worlds.iter().map(world).collect();
    json!({"worlds": worlds, "strange": now.strange})
}

fn world(world: &World) -> Value {
    let members: Vec<Value> = world.members.iter().map(|one| member(world, one)).collect();
    let blocks = world.blocks();
    let blocks: Vec<Value> =
        blocks.iter().map(|(block, ranks)| json!({"block": block, "ranks_here": ranks})).collect();
    let elsewhere = world.awaited.iter().map(|(rank, place)| {
        let address = place.address.map(|address| address.to_string());
        json!({"rank": rank, "node": place.node, "address": address, "status": standing(place.status)})
    });
    let circles = waits::circles_of(world);
    let names: Vec<Vec<String>> =
        circles.iter().map(|circle| circle.iter().map(|rank| world.name(*rank)).collect()).collect();
    json!({
        "job": format!("{:016x}", world.job),
        "kind": world.kind(),
        "phase": phase(world.phase),
        "ranks": world.ranks,
        "nodes": world.nodes,
        "nodes_here": world.nodes_here,
        "ranks_missing_here": world.missing,
        "ranks_not_shown_here": world.unseen,
        "budget_bytes": world.budget_bytes,
        "blocks": blocks,
        "members": members,
        "awaited_elsewhere": elsewhere.collect::<Vec<_>>(),
        "circles": circles,
        "circle_names": names,
    })
}

fn member(world: &World, member: &Member) -> Value {
    let waits = member.wait.as_ref().map(|wait| {
        let names: Vec<String> = wait.whom.iter().map(|rank| world.name(*rank)).collect();
        json!({"what": what(wait.what), "ranks": wait.whom, "names": names, "more": wait.more, "for_ms": wait.for_ms})
    });
    json!({
        "rank": member.rank,
        "name": world.name(member.rank),
        "block": member.block.map(|(block, _)| block),
        "block_rank": member.block.map(|(_, rank)| rank),
        "node": member.node,
        "pid": member.pid,
        "program": member.program,
        "status": standing(member.status),
        "booked_bytes": member.booked_bytes,
        "sent": {"messages": member.traffic.sent, "bytes": member.traffic.sent_bytes},
        "received": {"messages": member.traffic.received, "bytes": member.traffic.received_bytes},
        "kept_messages": member.traffic.unexpected,
        "posted_receives": member.traffic.receives,
        "waiting_sends": member.traffic.sends,
        "operations": member.operations,
        "waits": waits,
    })
}
