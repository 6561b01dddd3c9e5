package plan

import (
	"slices"

	"github.com/warren-mq/warren/internal/broker"
)

// TenantTag is on the vhosts and users of benchmarks, and begins their names.
const TenantTag = "warren-bench"

// TenantName is the name of the vhost and of the user of a run.
func TenantName(runID string) string { return TenantTag + "-" + runID }

// Leftovers say whether the run's vhost and user are on the broker. Name and tag must both be right: one that only has such
// a name is somebody else's.
func Leftovers(runID string, vhosts []broker.VHost, users []broker.User) (vhost, user bool) {
	name := TenantName(runID)
	vhost = slices.ContainsFunc(vhosts, func(v broker.VHost) bool { return v.Name == name && slices.Contains(v.Tags, TenantTag) })
	user = slices.ContainsFunc(users, func(u broker.User) bool { return u.Name == name && slices.Contains(u.Tags, TenantTag) })
	return vhost, user
}
