//! What the queues of a card share: made once, kept as long as its owner on the host lives.

use std::any::{Any, TypeId};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::error::Result;

/// And the type of what it owns here.
type Owner = (Weak<dyn Any + Send + Sync>, TypeId);
/// Locked while it is made.
type Place = Arc<Mutex<Option<Arc<dyn Any + Send + Sync>>>>;

#[derive(Default)]
pub(super) struct Shared(Mutex<Vec<(Owner, Place)>>);

impl Shared {
    pub fn get<O: Any + Send + Sync, T: Any + Send + Sync>(
        &self,
        owner: &Arc<O>,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        self.sweep();
        let place = self.place(owner, TypeId::of::<T>());
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = place.clone().and_then(|there| there.downcast().ok()) {
            return Ok(there);
        }
        let made = Arc::new(make()?);
        *place = Some(made.clone());
        Ok(made)
    }

    fn place<O: Any + Send + Sync>(&self, owner: &Arc<O>, of: TypeId) -> Place {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let address = Arc::as_ptr(owner).cast::<()>();
        // A weak owner keeps its address from being used again.
        let same = |other: &Owner| other.0.as_ptr().cast::<()>() == address && other.1 == of;
        if let Some((_, place)) = places.iter().find(|(other, _)| same(other)) {
            return place.clone();
        }
        let owner: Arc<dyn Any + Send + Sync> = owner.clone();
        let place = Place::default();
        places.push(((Arc::downgrade(&owner), of), place.clone()));
        place
    }

    /// Drops what has no owner any more.
    pub fn sweep(&self) {
        self.drop_where(|owner| owner.0.strong_count() == 0);
    }

    pub fn clear(&self) {
        self.drop_where(|_| true);
    }

    /// What is dropped may come back here: not under the lock.
    fn drop_where(&self, over: impl Fn(&Owner) -> bool) {
        let dropped: Vec<_> = {
            let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let (dropped, kept) =
                std::mem::take(&mut *places).into_iter().partition(|(owner, _)| over(owner));
            *places = kept;
            dropped
        };
        drop(dropped);
    }
}
