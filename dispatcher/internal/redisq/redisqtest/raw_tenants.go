package redisqtest

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/hookladder/hookladder/dispatcher"
)

// Tags of meta.
const (
	metaTenant  = 2
	metaSubject = 13
)

// field reads a field of the meta of a record.
func field(record string, tag byte) string {
	meta := record[atLane+1+int(record[atLane]):]
	size := int(meta[0])<<8 + int(meta[1])
	for meta = meta[3 : 2+size]; meta != ""; {
		kind, length, at := meta[0], 0, 1
		for shift := 0; ; shift += 7 {
			part := meta[at]
			length |= int(part&0x7f) << shift
			at++
			if part < 0x80 {
				break
			}
		}
		if kind == tag {
			return meta[at : at+length]
		}
		meta = meta[at+length:]
	}
	return ""
}

// owner returns the hash of the tenant of a record. It returns an empty text
// for a record without a tenant.
func (r *raw) owner(record string) string {
	tenant := field(record, metaTenant)
	if tenant == "" {
		return ""
	}
	sum := sha1.Sum([]byte(r.index + "t" + tenant))
	return hex.EncodeToString(sum[:8])
}

// readShelves reads the lanes' lists of all their deliveries.
func (r *raw) readShelves() {
	for name, cmd := range r.zsets {
		lane, ok := strings.CutPrefix(name, "of:")
		if !ok {
			continue
		}
		if at := strings.LastIndex(lane, "~"); at > 1 && len(lane)-at == 17 { // a lane is shorter
			queue, owner := lane[:at], lane[at+1:]
			for _, z := range cmd.Val() {
				id := dispatcher.DeliveryID{Lane: dispatcher.Lane(queue), Message: z.Member.(string)}
				if r.out.Parts[id] = owner; int64(z.Score) != r.out.Messages[id.Message].At {
					r.fault("%s is in %s at %f", id, name, z.Score)
				}
			}
			continue
		}
		for _, z := range cmd.Val() {
			r.out.Shelves[dispatcher.DeliveryID{Lane: dispatcher.Lane(lane), Message: z.Member.(string)}] = int64(z.Score)
		}
	}
}

// readTenants reads the shelves of each tenant and the owner of each lane.
func (r *raw) readTenants() {
	for name, cmd := range r.zsets {
		hash, ok := strings.CutPrefix(name, "tenant:")
		if !ok {
			continue
		}
		for _, z := range cmd.Val() {
			r.out.Owned[z.Member.(string)+" "+hash] = true
			if z.Score != 0 {
				r.fault("%s is in %s at %f", z.Member, name, z.Score)
			}
		}
	}
	for lane, hash := range r.hashes["owners"].Val() {
		r.out.Owners[dispatcher.Lane(lane)] = hash
	}
	for lane := range r.hashes["in"].Val() {
		r.out.Used[dispatcher.Lane(lane)] = true
	}
}

// readSubjects reads the tokens by which messages are found.
func (r *raw) readSubjects() {
	note := func(token, id string) {
		if name := fmt.Sprintf("%x %s", token, id); r.out.Subjects[name] {
			r.fault("message %s is twice under one subject", id)
		} else {
			r.out.Subjects[name] = true
		}
	}
	for token, text := range r.hashes["subjects"].Val() {
		if text != "*" {
			if ids := strings.Split(text, " "); len(ids) > 16 {
				r.fault("%d messages are in one field", len(ids))
			} else {
				for _, id := range ids {
					note(token, id)
				}
			}
			continue
		}
		list := r.zsets[fmt.Sprintf("subject:%x", token)]
		if list == nil {
			r.fault("the messages of subject %x are not there", token)
			continue
		}
		for _, z := range list.Val() {
			id := z.Member.(string)
			if note(token, id); int64(z.Score) != r.out.Messages[id].At {
				r.fault("%s is found at %f, it was accepted at %d", id, z.Score, r.out.Messages[id].At)
			}
		}
	}
	for name := range r.zsets {
		if hash, is := strings.CutPrefix(name, "subject:"); is {
			token, err := hex.DecodeString(hash)
			if text := r.hashes["subjects"].Val()[string(token)]; err != nil || text != "*" {
				r.fault("%s is not said to be there", name)
			}
		}
	}
	for id, m := range r.out.Messages {
		if m.Whole {
			if subject := field(r.hashes["messages"].Val()[id], metaSubject); subject != "" {
				sum := sha1.Sum([]byte(r.index + "s" + dispatcher.SubjectToken(subject)))
				r.out.About[fmt.Sprintf("%x %s", sum[:8], id)] = true
				r.wantDigits(string(sum[:8]), dispatcher.LastDigits(dispatcher.SubjectToken(subject)))
			}
		}
	}
	r.readDigits()
}

// wantDigits notes that a message should be found by the last digits of its number. Once for each
// message, or once for all of a token whose field is *.
func (r *raw) wantDigits(token, last string) {
	switch name := fmt.Sprintf("%s %x", last, token); {
	case last == "":
	case r.hashes["subjects"].Val()[token] == "*":
		r.out.Ending[name] = 1
	default:
		r.out.Ending[name]++
	}
}

// readDigits reads the lists of tokens by their last digits.
func (r *raw) readDigits() {
	for three, list := range r.digits {
		elements := list.Val()
		cut := elements[0] == ""
		if cut {
			elements = elements[1:]
		}
		for _, element := range elements {
			if len(element) != 9 {
				r.fault("digits:%s has %x", three, element)
				continue
			}
			token := element[:8]
			name := fmt.Sprintf("%s%s %x", element[8:], three, token)
			if r.hashes["subjects"].Val()[token] == "*" {
				r.out.Digits[name] = 1
			} else {
				r.out.Digits[name]++
			}
		}
		if cut {
			r.readCut(three)
		}
	}
}

// readCut takes a list of last digits that has lost its oldest elements as it is: it may have fewer of
// a token than there are messages, or more, but none of a token without a message.
func (r *raw) readCut(three string) {
	for name := range r.out.Ending {
		if strings.HasPrefix(name[1:], three+" ") {
			if delete(r.out.Ending, name); r.out.Digits[name] > 0 {
				r.out.Ending[name] = r.out.Digits[name]
			}
		}
	}
}
