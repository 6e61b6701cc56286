#include "storage_server/cpu_market.h"

#include "storage_server/tuning.h"

#include <assert.h>
#include <math.h>

struct sluice_cpu_market sluice_cpu_market_init(uint64_t now_ns, unsigned num_workers)
{
    return (struct sluice_cpu_market){
        .price = sluice_cpu_price_init(now_ns),
        .num_workers = num_workers,
        .was_empty = true, /* until the first job comes */
        .counted_ns = now_ns,
    };
}

void sluice_cpu_market_join(struct sluice_cpu_market *market,
                            struct sluice_cpu_market_client *client)
{
    client->next = market->clients;
    client->link = &market->clients;
    if (client->next)
        client->next->link = &client->next;
    market->clients = client;
}

void sluice_cpu_market_leave(struct sluice_cpu_market *market,
                             struct sluice_cpu_market_client *client)
{
    (void)market;
    assert(!client->num_at_work[false] && !client->num_at_work[true]);
    *client->link = client->next;
    if (client->next)
        client->next->link = client->link;
}

void sluice_cpu_market_follow(struct sluice_cpu_market *market,
                              struct sluice_cpu_market_client *client, size_t num_queued)
{
    if (!client->follows_price)
        market->num_waiting += num_queued;
    client->follows_price = true;
}

void sluice_cpu_market_hear_worth(struct sluice_cpu_market_client *client, double worth)
{
    client->worth = worth;
    client->has_told |= worth > 0;
}

void sluice_cpu_market_asked(struct sluice_cpu_market_client *client, uint64_t now_ns)
{
    client->asked_ns = now_ns;
}

void sluice_cpu_market_queued(struct sluice_cpu_market *market,
                              struct sluice_cpu_market_client *client, uint64_t now_ns)
{
    sluice_cpu_market_asked(client, now_ns);
    if (client->follows_price)
        market->num_waiting++;
}

void sluice_cpu_market_withdrawn(struct sluice_cpu_market *market,
                                 struct sluice_cpu_market_client *client)
{
    if (client->follows_price)
        market->was_empty |= --market->num_waiting == 0;
}

/* Before the number of workers at work changes. */
static void count_work(struct sluice_cpu_market *market, uint64_t now_ns)
{
    for (int k = 0; k < 2; k++)
        market->at_work[k].ns += market->at_work[k].num * (now_ns - market->counted_ns);
    market->counted_ns = now_ns;
}

void sluice_cpu_market_started(struct sluice_cpu_market *market,
                               struct sluice_cpu_market_client *client, uint64_t now_ns)
{
    const bool is_priced = client->follows_price;
    if (is_priced)
        market->was_empty |= --market->num_waiting == 0;
    count_work(market, now_ns);
    market->at_work[is_priced].num++;
    client->num_at_work[is_priced]++;
}

void sluice_cpu_market_done(struct sluice_cpu_market *market,
                            struct sluice_cpu_market_client *client, uint64_t now_ns,
                            uint64_t cpu_ns)
{
    const bool is_priced = !client->num_at_work[false]; /* those that do not count came first */
    assert(client->num_at_work[is_priced]);
    count_work(market, now_ns);
    market->at_work[is_priced].num--;
    client->num_at_work[is_priced]--;
    if (is_priced) {
        market->done_ns += cpu_ns;
        client->used_s += (double)cpu_ns * 1e-9;
    }
}

bool sluice_cpu_market_is_due(const struct sluice_cpu_market *market, uint64_t now_ns)
{
    return now_ns - market->price.last_ns >= CPU_MARKET_INTERVAL_NS;
}

/* The clients that share the cores, and the mean of what these are worth to them: the geometric
 * one, weighted by what each used. */
static void add_clients(struct sluice_cpu_market *market, uint64_t now_ns,
                        struct sluice_cpu_load *load)
{
    const double kept = exp(-(double)(now_ns - market->price.last_ns) / CPU_MARKET_USED_NS);
    double sum = 0, sum_weight = 0;
    for (struct sluice_cpu_market_client *c = market->clients; c; c = c->next) {
        if (!c->follows_price)
            continue;
        c->used_s *= kept;
        if (!c->asked_ns || now_ns - c->asked_ns >= CPU_MARKET_ABSENT_NS)
            continue;
        load->num_followers++;
        load->has_silent |= !c->has_told;
        if (c->worth > 0) {
            const double weight = c->used_s + CPU_MARKET_LEAST_USED_S;
            sum += weight * log(c->worth);
            sum_weight += weight;
        }
    }
    load->worth = sum_weight > 0 ? exp(sum / sum_weight) : 0;
}

double sluice_cpu_market_update(struct sluice_cpu_market *market, uint64_t now_ns, double cores,
                                double waiting_s)
{
    count_work(market, now_ns);
    const double all_s =
        (double)market->num_workers * (double)(now_ns - market->price.last_ns) * 1e-9;
    const double others_s = (double)market->at_work[false].ns * 1e-9;
    const double busy_s = (double)market->at_work[true].ns * 1e-9;
    struct sluice_cpu_load load = {
        .cores = cores,
        .waiting_s = waiting_s,
        .done_s = (double)market->done_ns * 1e-9,
        .busy_s = busy_s,
        .others_s = others_s,
        .idle_s = fmax(all_s - others_s - busy_s, 0),
        .was_empty = market->was_empty,
    };
    add_clients(market, now_ns, &load);
    market->num_followers = load.num_followers;
    market->done_ns = 0;
    market->at_work[false].ns = market->at_work[true].ns = 0;
    market->was_empty = market->num_waiting == 0;
    return sluice_cpu_price_update(&market->price, now_ns, &load);
}
