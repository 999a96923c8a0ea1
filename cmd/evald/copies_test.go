package main

import (
	"bytes"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evald/evald/engine/record/bucket/buckettest"
)

// A bucket's records train the network that the folder's train, bit for bit, and a resumed run finds them again.
func TestTrainFromBucket(t *testing.T) {
	s, dir := buckettest.Start(t), t.TempDir()
	folder := filepath.Join(dir, "games")
	play := []string{"selfplay", "--backend", "bitsquares", "--rules", "4x4x3", "--games", "40", "--visits", "8", "-o", folder, "--copy-to", "s3://games/run/"}
	if out := must(t, "", play...); !strings.Contains(out, "\ns3://games/run/: 1 files, of which 1 were put there now\n") {
		t.Errorf("output %q", out)
	}
	if out := must(t, "", append(slices.Clone(play), "--games", "60")...); !strings.Contains(out, "/: 2 files, of which 1 were put there now\n") {
		t.Errorf("output %q", out)
	}
	files, err := filepath.Glob(filepath.Join(folder, "games-*.parquet"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if !bytes.Equal(s.Object("run/"+filepath.Base(file)), getFile(t, file)) {
			t.Errorf("%s: the object is not the file", file)
		}
	}
	train := func(out, steps string, files ...string) []byte {
		must(t, "", append([]string{"train", "-o", filepath.Join(dir, out), "--rules", "4x4x3", "--heuristics", "--network", "1x4/4/6", "--batch", "32", "--steps", steps, "--threads", "1"}, files...)...)
		return getFile(t, filepath.Join(dir, out, "network.safetensors"))
	}
	want := train("local", "3", files...)
	if !bytes.Equal(train("remote", "3", "s3://games/run"), want) {
		t.Error("the bucket's records train another network")
	}
	s.Set("run/games-000060-000099.parquet", []byte("more games, which the run does not know"))
	if !bytes.Equal(train("remote", "3"), want) {
		t.Error("the resumed run has another network")
	}
	if flags := string(getFile(t, filepath.Join(dir, "remote", flagsFile))); !strings.Contains(flags, `"s3://games/run/`+filepath.Base(files[0])) {
		t.Errorf("flags %s", flags)
	}
	refuses(t, exitBadInput, "s3://games/run/games-000060-000099.parquet: ", "", "train", "s3://games/run", "-o", filepath.Join(dir, "other"), "--rules", "4x4x3")
	refuses(t, exitBadInput, "only records are read from buckets", "", "train", "--task", "exact", "s3://games/run", "-o", filepath.Join(dir, "other"), "--rules", "4x4x3")
	refuses(t, exitUsage, "want s3://BUCKET/FOLDER", "", append(slices.Clone(play), "--copy-to", "games")...)
}

// A merge reads and writes a bucket. What has stopped it halfway leaves whole objects; the same command then puts the others, and one game's
// records in several folders have the same bytes as in the folders.
func TestMergeBucket(t *testing.T) {
	s, dir := buckettest.Start(t), t.TempDir()
	for _, rules := range []string{"4x4x3", "5x4x4"} {
		out := filepath.Join(dir, rules)
		must(t, "", "positions", "-o", out, "--train", "--rules", rules, "--kinds", "random", "--count", "200", "--seed", "5")
		s.Set("exact/"+rules+"/random-00000.parquet", getFile(t, filepath.Join(out, "random-00000.parquet")))
	}
	merged := filepath.Join(dir, "merged")
	args := []string{"merge", "s3://games/exact", "-o", merged, "--rules", "4x4x3,5x4x4", "--copy-to", "s3://games/merged"}
	fails := func(t *testing.T, says, stdin string, args ...string) { // after other games' output
		t.Helper()
		if status, _, stderr := evald(t, stdin, args...); status != exitBadInput || !strings.Contains(stderr, says) {
			t.Errorf("status %d, errors %q; want %q", status, stderr, says)
		}
	}
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		return r.Method == http.MethodPut && s.Puts() == 1 && buckettest.Refuse(w, http.StatusForbidden, "AccessDenied")
	}
	fails(t, "s3://games/merged/5x4x4/merged-00000.parquet: access is denied", "", args...)
	s.Fault = nil
	out := must(t, "", args...)
	if !strings.Contains(out, "merged/4x4x3: 1 files, of which 0 were put there now\n") || !strings.Contains(out, "merged/5x4x4: 1 files, of which 1 were put there now\n") {
		t.Errorf("output %q", out)
	}
	local := filepath.Join(dir, "local")
	must(t, "", "merge", filepath.Join(dir, "4x4x3", "random-00000.parquet"), filepath.Join(dir, "5x4x4", "random-00000.parquet"), "-o", local, "--rules", "4x4x3,5x4x4")
	for _, name := range []string{"4x4x3/merged-00000.parquet", "5x4x4/merged-00000.parquet"} {
		want := getFile(t, filepath.Join(local, name))
		if !bytes.Equal(getFile(t, filepath.Join(merged, name)), want) || !bytes.Equal(s.Object("merged/"+name), want) {
			t.Errorf("%s: another file or object", name)
		}
	}
	s.Set("merged/4x4x3/merged-00000.parquet", []byte("other"))
	fails(t, "exists with another content", "", args...)
	if string(s.Object("merged/4x4x3/merged-00000.parquet")) != "other" {
		t.Error("the other object was replaced")
	}
}
