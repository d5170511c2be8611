//! Objects that the queues of a GPU share, such as a model: created once, and cached while their
//! owner on the host lives. Those that no queue uses are dropped when the context frees its cache.

use std::any::{Any, TypeId};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::error::Result;

/// An object that the queues of a GPU share.
pub trait SharedObject: Any + Send + Sync {
    /// Returns the bytes of the GPU that it holds.
    fn device_bytes(&self) -> u64;
}

/// The owner, and the type of its object.
type OwnerKey = (Weak<dyn Any + Send + Sync>, TypeId);
/// Locked while the object is created.
type ObjectCell = Arc<Mutex<Option<Arc<dyn SharedObject>>>>;

#[derive(Default)]
pub(super) struct SharedObjects(Mutex<Vec<(OwnerKey, ObjectCell)>>);

impl SharedObjects {
    pub fn get<O: Any + Send + Sync, T: SharedObject>(
        &self,
        owner: &Arc<O>,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        self.drop_orphans();
        let cell = self.cell(owner, TypeId::of::<T>());
        let mut cell = cell.lock().unwrap_or_else(PoisonError::into_inner);
        let object = cell.clone().map(|object| object as Arc<dyn Any + Send + Sync>);
        if let Some(object) = object.and_then(|object| object.downcast().ok()) {
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
        self.drop_where(|owner, _| owner.0.strong_count() == 0);
    }

    /// Drops the objects that no queue uses, and those whose owner is gone.
    pub fn drop_unused(&self) {
        self.drop_where(|owner, cell| owner.0.strong_count() == 0 || unused(cell).is_some());
    }

    /// Returns the bytes of the GPU that [`drop_unused`](SharedObjects::drop_unused) would free.
    pub fn unused_bytes(&self) -> u64 {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.iter_mut().filter_map(|(_, cell)| unused(cell)).map(SharedObject::device_bytes).sum()
    }

    pub fn clear(&self) {
        self.drop_where(|_, _| true);
    }

    /// Drops objects outside the lock, because their destructors may call this type.
    fn drop_where(&self, over: impl Fn(&OwnerKey, &mut ObjectCell) -> bool) {
        let dropped: Vec<_> = {
            let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            cells.extract_if(.., |(owner, cell)| over(owner, cell)).collect()
        };
        drop(dropped);
    }
}

/// Returns the object of a cell if the cell has the only reference to it. A thread that creates the
/// object, or waits for it, has another reference to the cell.
fn unused(cell: &mut ObjectCell) -> Option<&dyn SharedObject> {
    let object = Arc::get_mut(cell)?.get_mut().unwrap_or_else(PoisonError::into_inner).as_ref()?;
    (Arc::strong_count(object) == 1).then_some(&**object)
}
