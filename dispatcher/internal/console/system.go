package console

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hookladder/hookladder/dispatcher/client"
	"github.com/hookladder/hookladder/dispatcher/wire"
)

const (
	// lanesShown is the page length of lanes, links and entries of the audit.
	lanesShown = 50
	// lanesBusiest is how many of them the system's page shows.
	lanesBusiest = 20
	// instancesListed is how many instances a page lists.
	instancesListed = 100
)

// systemPage is the data of the system page: store, archive, instances and settings.
type systemPage struct {
	Instances []wire.Instance
	More      bool
	All       *wire.LaneState // the lane * while everything is paused
	Lanes     []wire.LaneState
	Store     wire.Store
	Archive   *archiveState
	Settings  []Setting
}

// archiveState is the state of the archive on this instance.
type archiveState struct {
	Up           bool
	Since        time.Time
	Why          string
	Holds        int
	Passed, Lost int64
}

// system serves GET /console/system.
func system(v *visit) (pageAnswer, error) {
	var stats wire.Stats
	var instances wire.InstancePage
	g, ctx := errgroup.WithContext(v.ctx)
	g.Go(func() (err error) { stats, err = v.Stats(ctx); return err })
	g.Go(func() (err error) { instances, err = v.Instances(ctx, instancesListed, ""); return err })
	if err := g.Wait(); err != nil {
		return pageAnswer{}, err
	}
	page := systemPage{Instances: instances.Data, More: instances.NextCursor != nil, Store: stats.Store, Settings: v.srv.Settings}
	for i := range page.Instances {
		page.Instances[i].SeenAt = wire.Time{} // it changes with the clock
	}
	for _, l := range slices.Concat(stats.Paused, stats.Lanes) {
		known := func(other wire.LaneState) bool { return other.Lane == l.Lane }
		switch {
		case l.Lane == client.AllLanes:
			page.All = &l
		case !slices.ContainsFunc(page.Lanes, known):
			l.TokenAt = wire.Time{}
			page.Lanes = append(page.Lanes, l)
		}
	}
	page.Lanes = page.Lanes[:min(len(page.Lanes), lanesBusiest)]
	if v.srv.Archive != nil {
		status := v.srv.Archive()
		page.Archive = &archiveState{Up: status.Up, Since: status.Since, Holds: status.Partitions, Passed: status.Passed, Lost: status.Lost}
		if status.Err != nil {
			page.Archive.Why = status.Err.Error()
		}
	}
	return pageAnswer{template: "system", title: "System", section: "system", body: page}, nil
}

// lanesPage is the data of a page of lanes.
type lanesPage struct {
	Lanes []wire.LaneState
	Wrong string
	Pages listPages
	Cause *cause // why they fail; nil: it is the list of all lanes
}

// lanes serves GET /console/lanes.
func lanes(v *visit) (pageAnswer, error) {
	var page lanesPage
	cursor := v.r.URL.Query().Get("cursor")
	list, err := v.Lanes(v.ctx, lanesShown, cursor)
	if page.Wrong, err = refusal(err); err != nil {
		return pageAnswer{}, err
	}
	page.Lanes = list.Data
	for i := range page.Lanes {
		page.Lanes[i].TokenAt = wire.Time{}
	}
	page.Pages = pagesOf("/console/lanes", nil, cursor, list.NextCursor)
	return pageAnswer{template: "lanes", title: "Lanes", section: "system", body: page}, nil
}

// lanePage is the data of one lane's page.
type lanePage struct {
	wire.LaneState
	Advice LaneSentence
	None   bool // no lane has this name
}

// lane serves GET /console/lanes/{lane}.
func lane(v *visit) (pageAnswer, error) {
	name := v.r.PathValue("lane")
	if name == client.AllLanes {
		return pageAnswer{to: "/console/system"}, nil
	}
	list, err := v.LanesOf(v.ctx, v.r.FormValue("tenant"), name)
	if err != nil {
		return pageAnswer{}, err
	}
	page := lanePage{LaneState: wire.LaneState{Lane: name, State: "active"}, None: len(list.Data) == 0}
	if !page.None {
		page.LaneState = list.Data[0]
	}
	page.TokenAt = wire.Time{}
	page.Advice = SentenceOf(page.LaneState, false)
	return pageAnswer{template: "lane", title: "Lane " + name, section: "system", body: page}, nil
}

// pauseLane serves POST /console/lanes/{lane}/pause. Pausing all lanes needs a
// confirmation.
func pauseLane(v *visit) (pageAnswer, error) {
	name := v.r.PathValue("lane")
	if name == client.AllLanes && v.r.PostFormValue("sure") == "" {
		return pageAnswer{to: "/console/system", result: "unsure"}, nil
	}
	_, err := v.PauseLane(v.ctx, name, "")
	return pageAnswer{to: lanePath(name), result: "paused"}, err
}

// resumeLane serves POST /console/lanes/{lane}/resume.
func resumeLane(v *visit) (pageAnswer, error) {
	name := v.r.PathValue("lane")
	_, err := v.ResumeLane(v.ctx, name, "")
	return pageAnswer{to: lanePath(name), result: "resumed"}, err
}

func lanePath(name string) string {
	if name == client.AllLanes {
		return "/console/system"
	}
	return "/console/lanes/" + url.PathEscape(name)
}

// auditPage is the data of a page of the audit.
type auditPage struct {
	Entries                  []wire.AuditEntry
	By, What, Target, Tenant string
	Wrong                    string
	Pages                    listPages
	Filtered                 bool
}

// audit serves GET /console/audit.
func audit(v *visit) (pageAnswer, error) {
	q := v.r.URL.Query()
	page := auditPage{By: q.Get("by"), What: q.Get("what"), Target: q.Get("target"), Tenant: q.Get("tenant")}
	some := func(text string) []string {
		if text == "" {
			return nil
		}
		page.Filtered = true
		return []string{text}
	}
	f := client.AuditFilter{
		By: some(page.By), What: some(page.What), Targets: some(page.Target), Tenants: some(page.Tenant), Limit: lanesShown, Cursor: q.Get("cursor"),
	}
	list, err := v.Audit(v.ctx, f)
	if page.Wrong, err = refusal(err); err != nil {
		return pageAnswer{}, err
	}
	page.Entries, page.Pages = list.Data, pagesOf("/console/audit", q, f.Cursor, list.NextCursor)
	return pageAnswer{template: "audit", title: "Audit", section: "system", body: page}, nil
}

// linksPage is the data of the list of links and the form of a new one.
type linksPage struct {
	Links                       []wire.Link
	Pages                       listPages
	Made                        *wire.NewLink // shown once; nil: none was made
	Tenant, Endpoint, Name, For string
	Manage                      bool
	Wrong                       map[string]string
}

// links serves GET /console/links.
func links(v *visit) (pageAnswer, error) {
	return v.linksPage(linksPage{Tenant: v.r.FormValue("tenant"), Endpoint: v.r.FormValue("endpoint"), For: "24h"}, 0)
}

func (v *visit) linksPage(page linksPage, status int) (pageAnswer, error) {
	cursor := v.r.URL.Query().Get("cursor")
	list, err := v.Links(v.ctx, lanesShown, cursor)
	said, err := refusal(err)
	if err != nil {
		return pageAnswer{}, err
	}
	if said != "" {
		page.Wrong = map[string]string{"": said}
	}
	page.Links, page.Pages = list.Data, pagesOf("/console/links", nil, cursor, list.NextCursor)
	return pageAnswer{template: "links", title: "Links for merchants", section: "system", status: status, body: page}, nil
}

// createLink serves POST /console/links: it shows the new link's URL once.
func createLink(v *visit) (pageAnswer, error) {
	page := linksPage{
		Tenant: v.r.PostFormValue("tenant"), Endpoint: v.r.PostFormValue("endpoint"), Name: v.r.PostFormValue("name"),
		For: v.r.PostFormValue("for"), Manage: v.r.PostFormValue("manage") != "",
	}
	lasts, err := time.Duration(0), error(nil)
	if page.For != "" {
		if lasts, err = wire.ParseDuration([]byte(`"` + url.PathEscape(page.For) + `"`)); err != nil {
			page.Wrong = map[string]string{"for": err.Error()}
			return v.linksPage(page, http.StatusUnprocessableEntity)
		}
	}
	made, err := v.CreateLink(v.ctx, wire.LinkRequest{Tenant: page.Tenant, Endpoint: page.Endpoint, Name: page.Name, Manage: page.Manage, For: wire.Duration(lasts)})
	if err == nil {
		return v.linksPage(linksPage{Made: &made, Tenant: page.Tenant, For: "24h"}, 0)
	}
	fields := []FormField{{Name: "tenant"}, {Name: "endpoint"}, {Name: "name"}, {Name: "for"}}
	if page.Wrong, err = v.wrongFields(err, fields); err != nil {
		return pageAnswer{}, err
	}
	return v.linksPage(page, http.StatusUnprocessableEntity)
}

// revokeLink serves POST /console/links/{link}/revoke.
func revokeLink(v *visit) (pageAnswer, error) {
	err := v.RevokeLink(v.ctx, v.r.PathValue("link"))
	return pageAnswer{to: "/console/links", result: "revoked"}, err
}
