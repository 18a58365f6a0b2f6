import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.vectors import dot_products, normalise


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 5), st.integers(1, 5), st.integers(1, 700))
def test_a_dot_product_depends_on_its_two_vectors_alone_in_a_stack_too(seed, items, images, texts, dimensions):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((items, images, dimensions)).astype(np.float32)
    b = rng.standard_normal((items, texts, dimensions)).astype(np.float32)
    a[:, -1] = a[:, 0]
    stacked = dot_products(a, b)
    assert (stacked.shape, stacked.dtype) == ((items, images, texts), np.float32)
    grid = dot_products(a[0], b[0])
    np.testing.assert_array_equal(stacked[0], grid)
    np.testing.assert_array_equal(grid, [[dot_products(x[None], y[None])[0, 0] for y in b[0]] for x in a[0]])
    np.testing.assert_array_equal(grid, dot_products(b[0], a[0]).T)
    np.testing.assert_array_equal(stacked[:, -1], stacked[:, 0])
    exact = a[0].astype(np.float64) @ b[0].astype(np.float64).T
    np.testing.assert_allclose(grid, exact, rtol=1e-6, atol=1e-6)


def test_a_dot_product_is_rounded_once_where_a_float32_matrix_product_is_not():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 512)).astype(np.float32) for _ in range(2))
    exact = (a.astype(np.float64) @ b.astype(np.float64).T).astype(np.float32)
    assert (a @ b.T != exact).any()
    assert np.abs(dot_products(a, b) - exact).max() <= np.spacing(np.float32(np.abs(exact).max()))


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.integers(1, 300))
def test_normalised_vectors_have_length_one_and_no_neighbour_moves_them(seed, dimensions):
    vectors = np.random.default_rng(seed).standard_normal((4, dimensions)).astype(np.float32) + np.float32(0.01)
    unit = normalise(vectors)
    assert unit.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(unit.astype(np.float64), axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(unit[2:3], normalise(vectors[2:3]))


@pytest.mark.parametrize("bad", [0, np.nan, np.inf])
def test_a_vector_without_a_direction_is_an_error(bad):
    vectors = np.ones((4, 3), np.float32)
    vectors[1] = vectors[3] = bad
    with raises(ModelError, "2", "4", "1", "3"):
        normalise(vectors)
