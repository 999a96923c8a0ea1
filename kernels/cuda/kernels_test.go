package cuda

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every kernel of the list is an entry of its module, and no entry is missing from the list.
func TestEntriesAreListed(t *testing.T) {
	entry := regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(\n\s*\.param \.align 8 \.b8 \w+\[(\d+)\]\n\)\n\.maxntid (\d+), 1, 1\n\.minnctapersm 1.*\n(?:\.explicitcluster\n\.reqnctapercluster (\d+), 1, 1\n)?\{`)
	got, want := map[string]string{}, map[string]string{}
	seen := map[string]bool{}
	for _, k := range Kernels() {
		cluster := ""
		if k.Cluster > 1 {
			cluster = strconv.Itoa(k.Cluster)
		}
		want[k.Name] = fmt.Sprintf("%d threads, job of %d bytes, clusters of %s", k.Threads, JobBytes, cluster)
		arch := fmt.Sprintf("sm_%d", k.Arch)
		if k.Exact {
			arch += "a"
		}
		if target := "\n.target " + arch + "\n"; !strings.Contains(k.PTX, target) {
			t.Errorf("%s: its PTX is not for %s", k.Name, arch)
		}
		if seen[k.PTX] {
			continue
		}
		seen[k.PTX] = true
		for _, m := range entry.FindAllStringSubmatch(k.PTX, -1) {
			got[m[1]] = fmt.Sprintf("%s threads, job of %s bytes, clusters of %s", m[3], m[2], m[4])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries in ptx/ (-listed +found):\n%s", diff)
	}
}
