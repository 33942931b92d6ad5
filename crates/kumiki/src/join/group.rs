//! Some processes of joined programs, their messages and their collectives.

use super::Join;
use crate::comm::{
    Group, GroupOptions, MessageInfo, MessageReceiving, MessageScope, MessageSending, Messages, Tag,
};
use crate::{Error, Members, Pod, Rank, Result, Team};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Contexts of messages that no group of a program has.
const OWN_CONTEXTS: std::ops::Range<u32> = 0x8000_0000..0x8100_0000;
const UNIVERSE: u32 = OWN_CONTEXTS.start;
const HEADS: u32 = OWN_CONTEXTS.start + 1;
/// Of the group of a block, its number behind this.
const BLOCK: u32 = OWN_CONTEXTS.start + 0x10_0000;

/// Members picked from several blocks, numbered in their order: from [`Join::group`].
///
/// Making one is local: no process asks another. Messages of groups with different ids never meet. Collectives are those of
/// [`kumiki::comm`](crate::comm); the members make what they need for them together, when each calls [`collectives`](Self::collectives) for the first time.
pub struct JoinGroup<'j> {
    join: &'j Join,
    context: u32,
    members: Members,
    /// The number of this process in it.
    me: Option<Rank>,
    /// What the members have made for their collectives; it is made once, whatever becomes of it.
    made: OnceLock<Result<(Team, Group<'j>)>>,
    making: Mutex<()>,
}

impl std::fmt::Debug for JoinGroup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JoinGroup({}, {} members)", self.id(), self.size())
    }
}

impl Join {
    /// A group of these ranks of the world, in this order. Every member gives the same id and the same members; a process that is none
    /// may make it too.
    ///
    /// ```
    /// # fn main() -> kumiki::Result<()> {
    /// # let join = kumiki::join::Join::from_env()?;
    /// // The first process of each block, the last block first.
    /// let blocks = 0..join.blocks().len() as u32;
    /// let heads = join.group(1, blocks.rev().filter_map(|block| join.world_rank(block, 0)).collect())?;
    /// assert_eq!(heads.rank().is_some(), join.rank() == 0);
    /// # drop(heads);
    /// # join.leave()
    /// # }
    /// ```
    pub fn group(&self, id: i32, members: Vec<Rank>) -> Result<JoinGroup<'_>> {
        match OWN_CONTEXTS.contains(&(id as u32)) {
            true => Err(Error::Misuse(format!(
                "a group of the id {id}: those from {} on are the library's own",
                i32::MIN
            ))),
            false => self.group_in(id as u32, members.into()),
        }
    }

    /// The group of all processes of all blocks.
    pub fn universe(&self) -> Result<JoinGroup<'_>> {
        self.group_in(UNIVERSE, (0..self.world().ranks()).into())
    }

    /// The group of the first process of each block.
    pub fn heads(&self) -> Result<JoinGroup<'_>> {
        let blocks = 0..self.blocks().len() as u32;
        let heads: Vec<Rank> = blocks.filter_map(|block| self.world_rank(block, 0)).collect();
        self.group_in(HEADS, heads.into())
    }

    /// The group of the processes of one block.
    pub fn of_block(&self, block: u32) -> Result<JoinGroup<'_>> {
        let Some(&ranks) = self.blocks().get(block as usize) else {
            return Err(Error::Misuse(format!(
                "block {block}: there are {} blocks, numbered from 0",
                self.blocks().len()
            )));
        };
        let first = self.world_rank(block, 0).unwrap_or(0);
        self.group_in(BLOCK + block, (first..first + ranks).into())
    }

    fn group_in(&self, context: u32, members: Members) -> Result<JoinGroup<'_>> {
        if !members.is_empty() {
            members.check(self.world().ranks())?;
        }
        let me = members.position(self.world().rank());
        Ok(JoinGroup { join: self, context, members, me, made: OnceLock::new(), making: Mutex::new(()) })
    }
}

impl<'j> JoinGroup<'j> {
    /// Its id.
    pub fn id(&self) -> i32 {
        self.context as i32
    }

    /// What messages about it say: the program knows no id of a group that the library has made.
    pub fn name(&self) -> String {
        match self.context {
            UNIVERSE => "of all processes".into(),
            HEADS => "of the first process of each block".into(),
            block if OWN_CONTEXTS.contains(&block) => format!("of block {}", block.wrapping_sub(BLOCK)),
            _ => self.id().to_string(),
        }
    }

    /// How many members it has.
    pub fn size(&self) -> u32 {
        self.members.len()
    }

    /// The number of this process in it; `None` if it is no member.
    pub fn rank(&self) -> Option<Rank> {
        self.me
    }

    /// The number in the world of a member; `None` if there is no such member.
    pub fn world_rank(&self, member: Rank) -> Option<Rank> {
        self.members.get(member)
    }

    /// Whether another one has the same id and the same members.
    pub fn is_same(&self, other: &JoinGroup<'_>) -> bool {
        self.context == other.context && self.members == other.members
    }

    /// Whether its members have had collectives.
    pub fn has_met(&self) -> bool {
        self.made.get().is_some()
    }

    /// Carries on with collectives of it that were started, without waiting. Whether some are under way.
    pub fn look_after(&self) -> bool {
        matches!(self.made.get(), Some(Ok((_, group))) if group.look_after())
    }

    /// The messages of its members, by their ranks in the world.
    pub(crate) fn messages(&self) -> Messages<'j> {
        self.join.world().messages().context(self.context)
    }

    /// The rank in the world of a member that this one talks to.
    pub(crate) fn peer(&self, member: Rank) -> Result<Rank> {
        if self.me.is_none() {
            return Err(Error::Misuse(format!("this process is no member of the group {}", self.name())));
        }
        self.members.get(member).ok_or_else(|| {
            Error::Misuse(format!(
                "member {member}: the group {} has {}, numbered from 0",
                self.name(),
                self.size()
            ))
        })
    }

    /// Sends a message to a member. When this returns the slice is free: a short message is on its way, a long one was received.
    pub fn send<T: Pod>(&self, to: Rank, tag: Tag, message: &[T]) -> Result<()> {
        self.messages().send(self.peer(to)?, tag, message)
    }

    /// Waits for the next message of a member with a tag.
    pub fn receive<T: Pod>(&self, from: Rank, tag: Tag) -> Result<Vec<T>> {
        self.messages().receive(self.peer(from)?, tag).map(|message| message.elements)
    }

    /// The same, into memory of the program: how many elements came. A message for which there is not enough is lost, and an error.
    pub fn receive_into<T: Pod>(&self, into: &mut [T], from: Rank, tag: Tag) -> Result<usize> {
        let got = self.messages().receive_into(into, self.peer(from)?, tag)?;
        Ok(got.bytes / size_of::<T>().max(1))
    }

    /// Begins to send a message, without waiting.
    pub fn start_send<T: Pod>(
        &self,
        to: Rank,
        tag: Tag,
        message: impl Into<Vec<T>>,
    ) -> Result<MessageSending<'j>> {
        self.messages().start_send(self.peer(to)?, tag, message)
    }

    /// Begins to receive the next message of a member with a tag that nobody waits for yet.
    pub fn start_receive<T: Pod>(&self, from: Rank, tag: Tag) -> Result<MessageReceiving<'j, T>> {
        self.messages().start_receive(self.peer(from)?, tag)
    }

    /// Begins messages out of memory that is borrowed, and into such, and waits until all are done: as [`Messages::scope`], with members instead of ranks.
    pub fn scope<'env, R>(&'env self, work: impl FnOnce(&MessageScope<'_, 'env>) -> Result<R>) -> Result<R> {
        self.messages().scope_of(|member| self.peer(member), work)
    }

    /// Waits until a message has come, and leaves it where it is: its bytes.
    pub fn probe(&self, from: Rank, tag: Tag) -> Result<usize> {
        self.messages().probe(self.peer(from)?, tag).map(|info| info.bytes)
    }

    /// The bytes of the next message, if it has come.
    pub fn try_probe(&self, from: Rank, tag: Tag) -> Result<Option<usize>> {
        let found: Option<MessageInfo> = self.messages().try_probe(self.peer(from)?, tag)?;
        Ok(found.map(|info| info.bytes))
    }

    /// The collectives of the group. The first call is one of all members, each of which waits for the others.
    pub fn collectives(&self) -> Result<&Group<'j>> {
        if self.me.is_none() {
            return Err(Error::Misuse(format!("this process is no member of the group {}", self.name())));
        }
        if self.made.get().is_none() {
            let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
            if self.made.get().is_none() {
                let _ = self.made.set(self.make());
            }
        }
        match self.made.get() {
            Some(Ok((_, group))) => Ok(group),
            Some(Err(error)) => Err(error.clone()),
            None => Err(Error::Closed("the group has ended".into())),
        }
    }

    fn make(&self) -> Result<(Team, Group<'j>)> {
        let world = self.join.world();
        let team = world.team_among(self.members.clone(), u64::from(self.context))?;
        world.meet(u64::from(self.context), self.members.clone());
        // The same algorithm each time: sums of floating-point numbers are the same from call to call and from run to run.
        let group = team.group_with(world, GroupOptions::default().fixed())?;
        Ok((team, group))
    }

    /// Gives back what the members have made for their collectives. Collective, if they have; those who only drop the group keep it until they leave.
    pub fn free(mut self) -> Result<()> {
        match self.made.take() {
            Some(Ok((team, group))) => {
                // What was made of it may be there still.
                if !group.is_parted() {
                    self.join.forget(self.context, &self.members);
                }
                group.free().and(team.free())
            }
            _ => Ok(()),
        }
    }
}

impl Drop for JoinGroup<'_> {
    /// Others may be in the last collective for a while: nobody leaves them alone in it.
    fn drop(&mut self) {
        if let Some(Ok((team, group))) = self.made.take() {
            self.join.keep(team, group.end_quietly());
        }
    }
}
