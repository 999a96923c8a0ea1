package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// isBucket reports whether a path names a bucket, or something in one.
func isBucket(path string) bool { return strings.HasPrefix(path, "s3://") }

// recordsMapper reads the paths of existing files, as kong's existingfile does, and of buckets, which are not looked for yet.
type recordsMapper struct{}

// Decode implements kong.Mapper.
func (recordsMapper) Decode(c *kong.DecodeContext, to reflect.Value) error {
	for c.Scan.Peek().IsValue() {
		var path string
		if err := c.Scan.PopValueInto("file", &path); err != nil {
			return err
		}
		if !isBucket(path) {
			path = kong.ExpandPath(path)
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if info.IsDir() {
				return fmt.Errorf("%q exists but is a directory", path)
			}
		}
		to.Set(reflect.Append(to, reflect.ValueOf(path)))
	}
	return nil
}

// copyFlag has the flag of commands whose finished files of records are also put into a bucket.
type copyFlag struct {
	CopyTo string `without:"join" placeholder:"s3://BUCKET/FOLDER" help:"At the end, put the files of records into this folder of a bucket too. A file that is there with the same content stays; one with another content is an error. The environment has the endpoint and the credentials as for AWS's tools: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and so on."`
}

// Validate checks the flag before anything is written.
func (c copyFlag) Validate() error {
	if name, _, _ := strings.Cut(strings.TrimPrefix(c.CopyTo, "s3://"), "/"); c.CopyTo != "" && (!isBucket(c.CopyTo) || name == "") {
		return fmt.Errorf("--copy-to %s: want s3://BUCKET/FOLDER", c.CopyTo)
	}
	return nil
}

// copyFiles puts the finished files of a folder that match a pattern into the bucket, under their own names.
func (c copyFlag) copyFiles(ctx context.Context, s streams, to *recordFiles, dir, pattern string) error {
	names, err := fs.Glob(os.DirFS(dir), pattern)
	if err != nil {
		return err
	}
	created := 0
	for i, name := range names {
		isNew, err := to.Put(filepath.Join(dir, name), strings.TrimSuffix(c.CopyTo, "/")+"/"+name)
		if err != nil {
			return orInterrupted(ctx, err, s.err, "; %d of %d files are in %s; the same command copies the others", i, len(names), c.CopyTo)
		}
		if isNew {
			created++
		}
	}
	_, err = fmt.Fprintf(s.out, "%s: %d files, of which %d were put there now\n", c.CopyTo, len(names), created)
	return err
}
