"""A linear classifier in JAX on the images of a folder or a server (HOST:PORT), with the rows of
each batch shared among all devices of this machine."""
import argparse
import functools

import jax
import jax.numpy as jnp
import sluice.jax


def loss_of(weights, table, images, labels):
    pixels = sluice.jax.normalize(images, table)[:, ::8, ::8].reshape(len(images), -1)
    scores = jax.nn.log_softmax(pixels @ weights)
    return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()


@functools.partial(jax.jit, donate_argnums=0)
def step(weights, table, images, labels):
    loss, gradient = jax.value_and_grad(loss_of)(weights, table, images, labels)
    return weights - 1e-3 * gradient, loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--batch-size", type=int, default=256)
    args = parser.parse_args()

    with sluice.jax.Loader(args.source, args.batch_size, devices=jax.local_devices(),
                           drop_last=True) as loader:
        table = sluice.jax.normalization(loader)
        num_inputs = 3 * (loader.info["height"] // 8) * (loader.info["width"] // 8)
        weights = jnp.zeros((num_inputs, loader.info["num_classes"]))
        for epoch in range(args.epochs):
            for images, labels in loader:
                weights, loss = step(weights, table, images, labels)
            print(f"epoch {epoch}: loss {loss:.3f}")


if __name__ == "__main__":
    main()
