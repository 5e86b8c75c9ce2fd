package redistest

import (
	"context"
	"testing"
)

func TestAClusterHasAllSlotsAndIsEmpty(t *testing.T) {
	rdb, c := NewCluster(t)
	ctx := context.Background()
	for _, key := range []string{"a", "b", "c", "queue:default", "retry"} {
		if err := rdb.Set(ctx, key, 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.Nodes) != 6 || c.Node(c.Nodes[2].Addr) != c.Nodes[2] {
		t.Errorf("%d nodes", len(c.Nodes))
	}
}
