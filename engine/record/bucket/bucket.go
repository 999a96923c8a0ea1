// Package bucket reads files of records from buckets of S3, and of servers with the same protocol, and puts finished files there.
//
// A file has the path s3://BUCKET/KEY. The environment has what AWS's tools take from it: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL
// (default: AWS), AWS_REGION or AWS_DEFAULT_REGION, and credentials: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, else the
// files of AWS_PROFILE, else the role of the pod, container or machine. Without any, requests are anonymous.
package bucket

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/evald/evald/engine/durable"
)

const (
	scheme   = "s3://"
	suffix   = ".parquet"
	tries    = 5               // requests without a byte of progress, before a read fails
	maxStall = time.Minute     // a body without a byte for this long is requested again
	maxBytes = int64(5) << 30  // of an object that one request puts
	roleWait = 5 * time.Second // for an answer of a service that knows the role of this machine
)

// Is reports whether a path names a bucket, or something in one.
func Is(path string) bool { return strings.HasPrefix(path, scheme) }

// Files is the operating system's file system, in which paths s3://BUCKET/KEY are objects: OpenFile and Stat read them, all other methods
// fail for them. At its first use, a whole object is copied into a temporary file, in which all later reads see the same bytes: training
// reads files several times, in parts, and a checksum is that of a whole file. It is safe for concurrent use. It must be closed.
type Files struct {
	durable.FS
	ctx   context.Context // of all requests, as the methods of a file system have none
	stall time.Duration

	mu     sync.Mutex
	server *minio.Client // nil before the first request
	spool  *os.File      // the copies one after the other; nil before the first
	end    int64         // bytes of the spool
	copies map[string]*object
}

// New returns the files. It sends no request and does not read the environment before a path needs it. The end of ctx ends all requests.
func New(ctx context.Context) *Files {
	return &Files{FS: durable.OS, ctx: ctx, stall: maxStall, copies: map[string]*object{}}
}

// Close removes the copies of objects.
func (f *Files) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spool == nil {
		return nil
	}
	err := f.spool.Close()
	if runtime.GOOS == "windows" { // elsewhere the file has had no name since it was made
		err = errors.Join(err, os.Remove(f.spool.Name()))
	}
	f.spool, f.copies = nil, map[string]*object{}
	return err
}

// Expand replaces each path s3://BUCKET/PREFIX, which does not end with .parquet, by the files below it that do, at any depth, in the order
// of their keys. Other paths stay as they are. A prefix without files is an error.
func (f *Files) Expand(paths []string) (all []string, err error) {
	for _, p := range paths {
		if !Is(p) || strings.HasSuffix(p, suffix) {
			all = append(all, p)
			continue
		}
		some, err := f.list(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, explain(err))
		}
		if len(some) == 0 {
			return nil, fmt.Errorf("%s: there are no files *%s: name another folder of the bucket, or a file", p, suffix)
		}
		all = append(all, some...)
	}
	return all, nil
}

func (f *Files) list(folder string) (paths []string, err error) {
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(folder, scheme), "/")
	if bucket == "" {
		return nil, errors.New("has no bucket: want s3://BUCKET/PREFIX")
	}
	if prefix != "" {
		prefix = strings.TrimSuffix(prefix, "/") + "/"
	}
	server, err := f.client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel() // ends the listing after an error
	for o := range server.ListObjects(ctx, bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, o.Err
		}
		if strings.HasSuffix(o.Key, suffix) {
			paths = append(paths, scheme+bucket+"/"+o.Key)
		}
	}
	slices.Sort(paths)
	return paths, f.ctx.Err() // a listing that ctx has ended may look complete
}

// OpenFile opens an object for reading, or a file of the operating system.
func (f *Files) OpenFile(path string, flag int, mode fs.FileMode) (durable.Handle, error) {
	if !Is(path) {
		return f.FS.OpenFile(path, flag, mode)
	}
	if flag != os.O_RDONLY {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errReadOnly}
	}
	o, err := f.copied(path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return o, nil
}

// Stat returns the size of an object, or of a file of the operating system.
func (f *Files) Stat(path string) (fs.FileInfo, error) {
	if !Is(path) {
		return f.FS.Stat(path)
	}
	o, err := f.copied(path)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return o.Stat()
}

// copied returns the copy of an object. It makes the copy if there is none.
func (f *Files) copied(path string) (*object, error) {
	bucket, key, err := split(path)
	if err != nil {
		return nil, err
	}
	server, err := f.client()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if o := f.copies[path]; o != nil {
		return o, nil
	}
	if f.spool == nil {
		if f.spool, err = os.CreateTemp("", "evald-records-*"); err != nil {
			return nil, fmt.Errorf("the copy of the object: %w: name another folder by TMPDIR", err)
		}
		if runtime.GOOS != "windows" {
			_ = os.Remove(f.spool.Name()) // so that a kill leaves nothing; if it fails, the file only stays longer
		}
	}
	info, err := server.StatObject(f.ctx, bucket, key, minio.StatObjectOptions{})
	if err == nil {
		err = f.get(server, bucket, info, io.NewOffsetWriter(f.spool, f.end))
	}
	if durable.IsFull(err) {
		return nil, fmt.Errorf("the copy of the object, %d bytes: %w: name a folder with more room by TMPDIR", info.Size, err)
	}
	if err != nil {
		return nil, explain(err)
	}
	o := &object{io.NewSectionReader(f.spool, f.end, info.Size), path, info}
	f.copies[path] = o
	f.end += info.Size
	return o, nil
}

// get writes a whole object to w. It continues after the last byte if a body ends too early, as long as the object stays the same.
func (f *Files) get(server *minio.Client, bucket string, o minio.ObjectInfo, w io.Writer) error {
	failed := 0
	for at := int64(0); at < o.Size; {
		n, answered, err := f.getFrom(server, bucket, o, at, w)
		if at += n; at > o.Size {
			return fmt.Errorf("the server sent more than the object's %d bytes", o.Size)
		}
		switch {
		case at == o.Size && err == nil:
			return nil
		case f.ctx.Err() != nil:
			return f.ctx.Err()
		case !answered || durable.IsFull(err): // the client has repeated the request already
			return err
		case n > 0:
			failed = 0
		}
		if failed++; failed == tries {
			return fmt.Errorf("the body ends after %d of %d bytes, %d times: %w", at, o.Size, tries, cmp.Or(err, io.ErrUnexpectedEOF))
		}
		select {
		case <-f.ctx.Done():
		case <-time.After(50 * time.Millisecond << failed):
		}
	}
	return nil
}

// getFrom writes an object's bytes from at on, and returns their number. answered reports whether the server has begun to send them.
func (f *Files) getFrom(server *minio.Client, bucket string, o minio.ObjectInfo, at int64, w io.Writer) (n int64, answered bool, err error) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	var options minio.GetObjectOptions
	if err := errors.Join(options.SetMatchETag(o.ETag), options.SetRange(at, o.Size-1)); err != nil {
		return 0, false, err
	}
	body, sent, _, err := (minio.Core{Client: server}).GetObject(ctx, bucket, o.Key, options)
	if err != nil {
		return 0, false, err
	}
	defer body.Close()
	if sent.ETag != o.ETag { // a server that does not know If-Match
		return 0, false, errChanged
	}
	timer := time.AfterFunc(f.stall, cancel)
	defer timer.Stop()
	n, err = io.Copy(w, io.LimitReader(&timed{body, timer, f.stall}, o.Size-at+1))
	return n, true, err
}

// timed resets a timer at each read.
type timed struct {
	io.Reader
	timer *time.Timer
	stall time.Duration
}

func (t *timed) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	t.timer.Reset(t.stall)
	return n, err
}

// Put puts a finished file into a bucket, whole, by one request: a kill leaves either nothing or the object, and no parts of an upload. If
// the object exists, its content must be that of the file; then created is false.
func (f *Files) Put(from, to string) (created bool, err error) {
	if created, err = f.put(from, to); err != nil {
		return false, fmt.Errorf("copy of %s to %s: %w", from, to, explain(err))
	}
	return created, nil
}

func (f *Files) put(from, to string) (created bool, err error) {
	bucket, key, err := split(to)
	if err != nil {
		return false, err
	}
	server, err := f.client()
	if err != nil {
		return false, err
	}
	file, err := os.Open(from)
	if err != nil {
		return false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	size := info.Size()
	if size > maxBytes {
		return false, fmt.Errorf("has %d bytes, and one request puts %d at most: make smaller files", size, maxBytes)
	}
	switch there, err := server.StatObject(f.ctx, bucket, key, minio.StatObjectOptions{}); {
	case err == nil:
		return false, f.same(server, bucket, there, file, size)
	case minio.ToErrorResponse(err).StatusCode != http.StatusNotFound:
		return false, err
	}
	options := minio.PutObjectOptions{ContentType: "application/vnd.apache.parquet", DisableMultipart: true}
	options.SetMatchETagExcept("*") // refused if another process has put the object meanwhile
	_, err = server.PutObject(f.ctx, bucket, key, io.NewSectionReader(file, 0, size), size, options)
	if minio.ToErrorResponse(err).StatusCode == http.StatusNotImplemented { // by a server without this condition
		options = minio.PutObjectOptions{ContentType: options.ContentType, DisableMultipart: true}
		_, err = server.PutObject(f.ctx, bucket, key, io.NewSectionReader(file, 0, size), size, options)
	}
	if minio.ToErrorResponse(err).StatusCode != http.StatusPreconditionFailed {
		return err == nil, err
	}
	there, err := server.StatObject(f.ctx, bucket, key, minio.StatObjectOptions{}) // perhaps by this process, whose first answer was lost
	if err != nil {
		return false, err
	}
	return false, f.same(server, bucket, there, file, size)
}

// same returns an error unless an object has the content of a file of size bytes.
func (f *Files) same(server *minio.Client, bucket string, o minio.ObjectInfo, file io.ReaderAt, size int64) error {
	if o.Size == size {
		have, want := sha256.New(), sha256.New()
		if err := f.get(server, bucket, o, have); err != nil {
			return err
		}
		if _, err := io.Copy(want, io.NewSectionReader(file, 0, size)); err != nil {
			return err
		}
		if string(have.Sum(nil)) == string(want.Sum(nil)) {
			return nil
		}
	}
	return errors.New("the object exists with another content: name another folder of the bucket, or remove the object")
}

// client returns the client, which it makes at its first call.
func (f *Files) client() (*minio.Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.server != nil {
		return f.server, nil
	}
	const name = "AWS_ENDPOINT_URL"
	given := cmp.Or(os.Getenv(name+"_S3"), os.Getenv(name))
	u, err := url.Parse(cmp.Or(given, "https://s3.amazonaws.com"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New(name + " is not of the form https://HOST:PORT") // its value may contain a password
	}
	region := cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	if region == "" && given != "" {
		region = "us-east-1" // the default of other servers; without a region the client asks AWS
	}
	f.server, err = minio.New(u.Host, &minio.Options{
		Secure: u.Scheme == "https", Region: region, MaxRetries: tries,
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: &http.Client{Timeout: roleWait}},
		}),
	})
	return f.server, err
}

// split returns the bucket and the key of a file's path.
func split(file string) (bucket, key string, err error) {
	bucket, key, _ = strings.Cut(strings.TrimPrefix(file, scheme), "/")
	if !Is(file) || bucket == "" || key == "" || path.Base(key) == "." || strings.HasSuffix(key, "/") {
		return "", "", errors.New("names no file in a bucket: want s3://BUCKET/KEY")
	}
	return bucket, key, nil
}

var (
	errReadOnly = errors.New("files in buckets can only be read")
	errChanged  = errors.New("the object was changed while it was read: run the command again")
)

// explain adds the way out to an error of a server. Errors of servers contain no secret key.
func explain(err error) error {
	switch r := minio.ToErrorResponse(err); {
	case r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("access is denied (%s): check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, AWS_ENDPOINT_URL, and the bucket's policy", r.Code)
	case r.Code == minio.NoSuchBucket:
		return fmt.Errorf("there is no such bucket: create it, or check its name, AWS_ENDPOINT_URL and AWS_REGION")
	case r.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: there is no such object, or no such bucket: check the name, and AWS_ENDPOINT_URL", fs.ErrNotExist)
	case r.StatusCode == http.StatusPreconditionFailed:
		return errChanged
	case r.StatusCode != 0:
		return fmt.Errorf("the server answers %d %s: %w", r.StatusCode, r.Code, err)
	}
	if _, sent := errors.AsType[*url.Error](err); sent {
		return fmt.Errorf("%w: check AWS_ENDPOINT_URL and the network", err)
	}
	return err
}

// object is the copy of an object. It implements durable.Handle, and cannot be written.
type object struct {
	*io.SectionReader
	path string
	info minio.ObjectInfo
}

func (o *object) Name() string                       { return o.path }
func (o *object) Stat() (fs.FileInfo, error)         { return info{o}, nil }
func (o *object) Close() error                       { return nil } // Files.Close removes all copies
func (o *object) Write([]byte) (int, error)          { return 0, errReadOnly }
func (o *object) WriteAt([]byte, int64) (int, error) { return 0, errReadOnly }
func (o *object) Chmod(fs.FileMode) error            { return errReadOnly }
func (o *object) Sync() error                        { return errReadOnly }

// info is the fs.FileInfo of an object.
type info struct{ o *object }

func (i info) Name() string       { return path.Base(i.o.path) }
func (i info) Size() int64        { return i.o.info.Size }
func (i info) Mode() fs.FileMode  { return 0o444 }
func (i info) ModTime() time.Time { return i.o.info.LastModified }
func (i info) IsDir() bool        { return false }
func (i info) Sys() any           { return nil }
