package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// node is the NUMA node that a device at this place of the PCI bus is attached to, as the kernel says in the folder
// /sys/bus/pci/devices. It is -1 if the machine has no NUMA, or does not say.
func node(folder string, domain, bus, device int) int {
	text, err := os.ReadFile(filepath.Join(folder, fmt.Sprintf("%04x:%02x:%02x.0", domain, bus, device), "numa_node"))
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 0 {
		return -1
	}
	return n
}
