//! Objects that the queues of a GPU share, such as a model: created once, kept while their owner on
//! the host lives.

use std::any::{Any, TypeId};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::error::Result;

/// The owner, and the type of its object.
type OwnerKey = (Weak<dyn Any + Send + Sync>, TypeId);
/// Locked while the object is created.
type ObjectCell = Arc<Mutex<Option<Arc<dyn Any + Send + Sync>>>>;

#[derive(Default)]
pub(super) struct SharedObjects(Mutex<Vec<(OwnerKey, ObjectCell)>>);

impl SharedObjects {
    pub fn get<O: Any + Send + Sync, T: Any + Send + Sync>(
        &self,
        owner: &Arc<O>,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        self.drop_orphans();
        let cell = self.cell(owner, TypeId::of::<T>());
        let mut cell = cell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = cell.clone().and_then(|object| object.downcast().ok()) {
            return Ok(object);
        }
        let made = Arc::new(make()?);
        *cell = Some(made.clone());
        Ok(made)
    }

    fn cell<O: Any + Send + Sync>(&self, owner: &Arc<O>, of: TypeId) -> ObjectCell {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let address = Arc::as_ptr(owner).cast::<()>();
        // The weak reference keeps the owner's address from being reused.
        let same = |other: &OwnerKey| other.0.as_ptr().cast::<()>() == address && other.1 == of;
        if let Some((_, cell)) = cells.iter().find(|(other, _)| same(other)) {
            return cell.clone();
        }
        let owner: Arc<dyn Any + Send + Sync> = owner.clone();
        let cell = ObjectCell::default();
        cells.push(((Arc::downgrade(&owner), of), cell.clone()));
        cell
    }

    /// Drops the objects whose owner is gone.
    pub fn drop_orphans(&self) {
        self.drop_where(|owner| owner.0.strong_count() == 0);
    }

    pub fn clear(&self) {
        self.drop_where(|_| true);
    }

    /// Drops objects outside the lock, because their destructors may call this type.
    fn drop_where(&self, over: impl Fn(&OwnerKey) -> bool) {
        let dropped: Vec<_> = {
            let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let (dropped, kept) = std::mem::take(&mut *cells).into_iter().partition(|(owner, _)| over(owner));
            *cells = kept;
            dropped
        };
        drop(dropped);
    }
}
