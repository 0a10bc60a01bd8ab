//! [`DurableLocal`]: a local folder as an object store that syncs what it writes.
//!
//! `object_store`'s local store leaves data in the page cache. Here every write returns when the file and its
//! folder are on disk, so a power cut cannot leave a Delta log that names files which are gone.

use std::{fmt, fs::File, ops::Range, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart, local::LocalFileSystem, path::Path,
};

/// A [`LocalFileSystem`] whose writes are durable when they return.
#[derive(Debug, Clone)]
pub struct DurableLocal {
    inner: Arc<LocalFileSystem>,
}

impl DurableLocal {
    /// The whole file system, with `/` as the root.
    #[must_use]
    pub fn new() -> Self {
        Self { inner: Arc::new(LocalFileSystem::new()) }
    }

    async fn sync(&self, location: &Path) -> Result<()> {
        sync(self.inner.path_to_filesystem(location)?).await
    }
}

impl Default for DurableLocal {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for DurableLocal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DurableLocal({})", self.inner)
    }
}

/// Syncs a file and the folder that names it.
async fn sync(path: PathBuf) -> Result<()> {
    let failed = |e: std::io::Error| object_store::Error::Generic { store: "DurableLocal", source: Box::new(e) };
    let synced = tokio::task::spawn_blocking(move || {
        File::open(&path)?.sync_all()?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    });
    synced.await.map_err(|e| failed(e.into()))?.map_err(failed)
}

#[async_trait]
impl ObjectStore for DurableLocal {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let put = self.inner.put_opts(location, payload, options).await?;
        self.sync(location).await?;
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.inner.put_multipart_opts(location, options).await?;
        Ok(Box::new(DurableUpload { upload, path: self.inner.path_to_filesystem(location)? }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await?;
        self.sync(to).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await?;
        self.sync(to).await
    }
}

#[derive(Debug)]
struct DurableUpload {
    upload: Box<dyn MultipartUpload>,
    path: PathBuf,
}

#[async_trait]
impl MultipartUpload for DurableUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.upload.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let put = self.upload.complete().await?;
        sync(self.path.clone()).await?;
        Ok(put)
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}
